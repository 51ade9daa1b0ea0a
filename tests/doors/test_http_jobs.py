"""Jobs of the server: which run at once, whose turn it is, and which are remembered. A script stands for their process;
the last tests have a real server."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from surefind.base.access import Caller
from surefind.base.errors import NotFoundError, UsageError
from surefind.doors.http import jobs
from surefind.doors.http.jobs import Job, Jobs
from surefind.doors.http.metrics import Metrics
from surefind.doors.http.turns import TooOftenError

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

    monkeypatch.setattr(Jobs, "cancel", lambda *_: asyncio.sleep(0))
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


def person(name: str) -> Caller:
    return Caller(name, frozenset({"review"}), frozenset())


def states(jobs: list[Job]) -> list[str]:
    return [job.state for job in jobs]


async def until(reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not reached():
            await asyncio.sleep(0.005)


def run(tmp_path: Path, main: Callable[[Jobs], Awaitable[None]]) -> None:
    async def do() -> None:
        made = Jobs(tmp_path, Metrics(), _done)
        try:
            await main(made)
        finally:
            await made.close()

    asyncio.run(do())


STUDY = {"study": "x"}


def test_nobody_has_all_places_and_callers_take_turns(tmp_path: Path) -> None:
    ada, bob, eve = map(person, ("ada", "bob", "eve"))

    async def main(jobs: Jobs) -> None:
        first = [await jobs.start(ada, "study", STUDY) for _ in range(6)]
        assert states(first) == ["running"] * 3 + ["waiting"] * 3
        second = [await jobs.start(bob, "study", STUDY) for _ in range(2)]
        assert states(second) == ["running", "waiting"]
        third = await jobs.start(eve, "study", STUDY)
        assert third.state == "waiting"
        await jobs.cancel(first[0])
        await until(lambda: third.state == "running")  # eve has none, bob has one
        await jobs.cancel(first[1])
        await until(lambda: second[1].state == "running" or first[3].state == "running")
        assert second[1].state == "running" or first[3].state == "running"

    run(tmp_path, main)


def test_publishing_has_a_place_of_its_own(tmp_path: Path) -> None:
    async def main(jobs: Jobs) -> None:
        ada, bob = person("ada"), person("bob")
        for name in "vwxyz":
            for _ in range(3):
                await jobs.start(person(name), "study", STUDY)
        publish = await jobs.start(bob, "publish", {"version": 1})
        assert publish.state == "running"
        await until(lambda: publish.ended is not None)
        more = [
            await jobs.start(ada, kind, {"document": "study", "version": "study"}) for kind in ("retire", "publish")
        ]
        assert states(more) == ["running", "waiting"], "one at a time"

    run(tmp_path, main)


def test_syncs_that_wait_are_one(tmp_path: Path) -> None:
    ada, bob, admin = person("ada"), person("bob"), ADMIN

    async def main(jobs: Jobs) -> None:
        first = await jobs.start(ada, "sync", {})
        assert first.state == "running"
        waiting = await jobs.start(ada, "sync", {})
        again = await jobs.start(bob, "sync", {})
        assert again is waiting is not first and waiting.state == "waiting"
        assert jobs.get(waiting.id, bob) is waiting, "whoever asked for it may see it"
        assert await jobs.start(admin, "sync", {"folder": "more"}) is not waiting, "its options differ"
        await jobs.cancel(waiting, ada)
        assert waiting.state == "waiting", "bob waits for it, too"
        with pytest.raises(NotFoundError):
            jobs.get(waiting.id, ada)
        await until(lambda: waiting.ended is not None)
        assert waiting.state == "finished" and first.state == "finished"
        other = await jobs.start(bob, "sync", {})
        assert other is not waiting, "one that has begun may have missed a change"

    run(tmp_path, main)


def test_too_many_jobs_of_a_caller_are_refused_as_too_many(tmp_path: Path) -> None:
    async def main(jobs: Jobs) -> None:
        ada, bob = person("ada"), person("bob")
        made = [await jobs.start(ada, "study", STUDY) for _ in range(8)]
        with pytest.raises(TooOftenError, match="You have 8 jobs that run or wait"):
            await jobs.start(ada, "study", STUDY)
        publish = await jobs.start(ada, "publish", {"version": 1})
        assert (await jobs.start(bob, "study", STUDY)).state == "running"
        await jobs.cancel(made[7], ada)
        assert made[7].state == "cancelled" and made[7].ended
        assert (await jobs.start(ada, "study", STUDY)).state == "waiting"
        await until(lambda: publish.ended is not None)

    run(tmp_path, main)


def test_a_job_that_cannot_start_or_writes_nonsense_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(jobs: Jobs) -> None:
        monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
        job = await jobs.start(ADMIN, "graph", {})
        after = await jobs.start(ADMIN, "sync", {})
        await until(lambda: bool(job.ended and after.ended))
        assert (job.state, job.error, after.state) == ("failed", "The job failed.", "failed")

    run(tmp_path, main)


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
