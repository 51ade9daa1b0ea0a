"""Stores exams with the knowledge base: one folder per name, one file per version, whose questions never change after
the session that writes it."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from surefind.base.disk.sealed import private_folder, sealed, unsealed, write_file
from surefind.base.errors import ExamError, choices
from surefind.kb import KnowledgeBase
from surefind.lab.exam.model import Exam, query_from_json, query_to_json
from surefind.lab.exam.questions import Candidates, Questions

if TYPE_CHECKING:
    from surefind.lab.exam.labels import Labels

_MAX_NAME_BYTES = 200
"""Bytes of a name, at most. Files have 255, and some have more in their names than the exam's."""

_MAKE = (
    "Bring questions of people: surefind exam import FILE.csv --name {name}, or the page Label of surefind serve. "
    "surefind exam generate writes some from the documents."
)
"""How to come by an exam."""


class ExamStore:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, exam: Exam) -> Exam:
        """Saves the exam as its next version. If its questions are those of the newest version, returns that one; a
        generated exam then records which documents and rules give these questions."""
        check_name(exam.name)
        versions = self._versions(exam.name)
        if versions:
            newest = self.load(exam.name)
            if newest.fingerprint == exam.fingerprint:
                return self.write(replace(exam, version=newest.version)) if exam.generator else newest
        return self.write(replace(exam, version=max(versions, default=0) + 1))

    def write(self, made: Exam) -> Exam:
        """Writes the file of the exam's version, and returns what it holds. Only the session that grows a version may
        write it again."""
        folder = private_folder(self.folder / made.name)
        header = {"name": made.name, "version": made.version, "fingerprint": made.fingerprint}
        header |= {"origin": made.origin, "corpus": made.corpus}
        header |= {"generator": made.generator} if made.generator else {}
        lines = [sealed(header), *map(query_to_json, made.queries)]
        file = folder / f"v{made.version:03}.jsonl"
        write_file(file, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
        return _read(file)  # as every later run loads it: numbers in the file are rounded

    def load(self, name: str, version: int | None = None) -> Exam:
        """Loads the newest version (`known-item`) or a given one (`known-item@2`)."""
        name, versions = self.found(name if version is None else f"{name}@{version}")
        return _read(self._file(name, versions[-1]))

    def found(self, text: str) -> tuple[str, list[int]]:
        """Resolves `NAME` or `NAME@VERSION` to the name and its versions: all of them, or the given one."""
        name, at, number = text.partition("@")
        versions = self._versions(name) if name in self.names() else []
        if not versions:
            known = choices(name, self.names()) if self.names() else ""
            raise ExamError(f"There is no exam called {name!r}. {known} {_MAKE.format(name=name)}".replace("  ", " "))
        if not at:
            return name, versions
        if not (number.isascii() and number.isdigit()) or int(number) not in versions:
            raise ExamError(f"The exam {name!r} has no version {number}; versions: {', '.join(map(str, versions))}.")
        return name, [int(number)]

    def written(self, exam: Exam) -> float:
        """Returns when the file of a version was written, in seconds since 1970."""
        return self._file(exam.name, exam.version).stat().st_mtime

    def delete(self, text: str) -> list[str]:
        """Deletes an exam, or one version of it. Returns the deleted versions, as NAME@VERSION."""
        name, versions = self.found(text)
        for version in versions:
            self._file(name, version).unlink()
        if not self._versions(name):
            shutil.rmtree(self.folder / name)
            self.questions.forget(name)
        return [f"{name}@{version}" for version in versions]

    def names(self) -> list[str]:
        """Returns the names of the exams. A folder that holds only candidate questions is not an exam yet."""
        return sorted({path.parent.name for path in self.folder.glob("*/v*.jsonl")})

    def collected(self) -> list[str]:
        """Returns the names that have candidate questions, or passages to label, whether or not they are exams yet."""
        return self.questions.exams()

    @property
    def questions(self) -> Questions:
        return Questions(self.folder)

    def candidates(self, name: str) -> Candidates:
        """Returns the candidate questions of an exam, which need not exist yet."""
        check_name(name)
        return Candidates(self.questions, name)

    def labels(self, name: str) -> Labels:
        """Returns the passages that judges label for an exam, and their labels."""
        from surefind.lab.exam.labels import Labels  # shell completion imports this module

        check_name(name)
        return Labels(self.questions, name)

    def all(self) -> list[Exam]:
        return [self.load(name, version) for name in self.names() for version in self._versions(name)]

    def _file(self, name: str, version: int) -> Path:
        return self.folder / name / f"v{version:03}.jsonl"

    def _versions(self, name: str) -> list[int]:
        return sorted(int(path.stem[1:]) for path in (self.folder / name).glob("v*.jsonl"))


def check_name(name: str) -> None:
    """Raises `ExamError` if an exam cannot have this name. Files are named after it."""
    if len(name.encode(errors="replace")) > _MAX_NAME_BYTES:
        raise ExamError(f"An exam cannot be called {name[:40]!r}…: the name is too long. Use a shorter one.")
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", name):
        raise ExamError(f"An exam cannot be called {name!r}. Use letters, digits, '-', '_' and '.'.")


def _read(path: Path) -> Exam:
    try:
        with path.open(encoding="utf-8") as file:
            header = unsealed(json.loads(next(file)))
            queries = tuple(query_from_json(json.loads(line)) for line in file)
            about = header["name"], queries, int(header["version"])
            exam = Exam(*about, header.get("origin", ""), header.get("corpus", ""), header.get("generator", 0))
            if exam.fingerprint != header["fingerprint"]:
                raise ValueError("the questions do not match their fingerprint")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, StopIteration, RecursionError) as error:
        raise ExamError(
            f"The exam file {path} is damaged or was edited ({error}). Restore it from a backup, or import a copy "
            "without its first line as a new exam: surefind exam import COPY --name NAME."
        ) from None
    return exam


def check_exams(kb: KnowledgeBase) -> str:
    """Reads all exams, their questions and the log of searches, for `surefind doctor`. Returns what was checked; raises
    an error if something is damaged."""
    from surefind.kb.integrity import DamageError, check_all

    store = ExamStore(kb.data / "exams")
    files = [(name, version) for name in store.names() for version in store.found(name)[1]]
    damaged = store.questions.problems()
    if damaged:
        raise DamageError(damaged[0])
    check_all([*(partial(store.load, *file) for file in files), kb.queries.all])
    return f"{len(files)} exams and the questions of {len(store.collected())} match their checksums"
