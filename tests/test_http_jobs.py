"""Jobs of the server: how many run at once, and which are remembered. A script stands for their process."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from surefind.errors import UsageError
from surefind.serve.auth.caller import Caller
from surefind.serve.http import jobs
from surefind.serve.http.jobs import Job, Jobs
from surefind.serve.http.metrics import Metrics

ADMIN = Caller("admin", frozenset({"admin"}), frozenset())
PYTHON = sys.executable


@pytest.fixture(autouse=True)
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sync ends at once, and a study runs until it is stopped."""
    script = tmp_path / "surefind.sh"
    script.write_text('#!/bin/sh\ncase "$(cat)" in *study*) exec sleep 60;; esac\n')
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))


async def _done(_kind: str, _state: str) -> None:
    pass


def test_running_job_is_not_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_MAX_JOBS", 3)

    async def main() -> None:
        found = Jobs(tmp_path, Metrics(), _done)
        first = await found.start(ADMIN, "study", {"study": "x"})
        short = []
        for _ in range(4):
            short.append(await found.start(ADMIN, "sync", {}))
            while short[-1].ended is None:
                await asyncio.sleep(0.005)
        assert found.get(first.id, ADMIN) is first
        assert [job.id for job in found.all(ADMIN)] == [short[3].id, short[2].id, first.id]
        await found.cancel(first)
        assert first.state == "cancelled"
        await found.close()

    asyncio.run(main())


def test_job_whose_process_dies_while_it_writes_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "dies.sh"
    script.write_text("""#!/bin/sh\ncat > /dev/null\necho 'A warning.' >&2\nprintf '{"event": "Resu'\nexit 9\n""")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))

    async def main() -> Job:
        found = Jobs(tmp_path, Metrics(), _done)
        job = await found.start(ADMIN, "sync", {})
        await asyncio.wait_for(found.close(), 10)
        return job

    monkeypatch.setattr(Jobs, "cancel", lambda self, job: asyncio.sleep(0))
    job = asyncio.run(main())
    assert (job.state, job.error, [str(event) for event in job.told]) == ("failed", "The job failed.", ["A warning."])


def test_job_ends_although_what_follows_it_fails(tmp_path: Path) -> None:
    async def fail(_kind: str, _state: str) -> None:
        raise OSError("The disk is full.")

    async def main() -> Job:
        found = Jobs(tmp_path, Metrics(), fail)
        job = await found.start(ADMIN, "sync", {})
        async with asyncio.timeout(10):
            while job.ended is None:
                await asyncio.sleep(0.005)
        return job

    assert asyncio.run(main()).state == "finished"


@pytest.mark.parametrize(
    ("kind", "options"),
    [("study", {}), ("pool", {"judge": "ada"}), ("bench", {"exam": "--as=hr"})],
)
def test_options_that_a_kind_cannot_use_are_refused(tmp_path: Path, kind: str, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="must be a name"):
        asyncio.run(Jobs(tmp_path, Metrics(), _done).start(ADMIN, kind, options))


def test_jobs_that_are_started_at_once_keep_to_the_limit(tmp_path: Path) -> None:
    async def main() -> None:
        found = Jobs(tmp_path, Metrics(), _done)
        tried = (found.start(ADMIN, "study", {"study": "x"}) for _ in range(12))
        made = await asyncio.gather(*tried, return_exceptions=True)
        assert [isinstance(one, Job) for one in made].count(True) == 4
        assert all(isinstance(one, (Job, UsageError)) for one in made)
        await found.close()
        again = await found.start(ADMIN, "sync", {})
        await found.close()
        assert again.ended

    asyncio.run(main())


def test_job_imports_nothing_from_the_folder_of_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Authors write documents there: a file of theirs must not be run as a module."""
    monkeypatch.setattr(sys, "executable", PYTHON)
    (tmp_path / "json.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    async def main() -> None:
        found = Jobs(tmp_path / "kb", Metrics(), _done)
        job = await found.start(ADMIN, "sync", {})
        while job.ended is None:
            await asyncio.sleep(0.01)
        await found.close()

    asyncio.run(main())
    assert not (tmp_path / "ran").exists()
