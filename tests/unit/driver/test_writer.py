"""The writing thread: in order, heard of when done, loud when the disk is full or a callback has a bug."""

import asyncio
import resource
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from rollgym.common.errors import ArtifactError
from rollgym.driver.artifacts.paths import ArtifactPaths
from rollgym.driver.artifacts.writer import writing_artifacts


@pytest.fixture
def paths(tmp_path: Path) -> ArtifactPaths:
    return ArtifactPaths(tmp_path / "rows.jsonl")


@pytest.fixture
def small_disk() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def test_a_row_is_in_its_file_before_anyone_hears_of_it(paths: ArtifactPaths) -> None:
    seen: list[bytes] = []
    async with writing_artifacts(paths) as writer:
        await writer.result([b"row"], b"note", lambda: seen.append(paths.results.read_bytes()))
        assert seen == [b"row\n"]
        await writer.failure(b"failed", b"note", lambda: None)
    assert (paths.failures.read_bytes(), paths.journal.read_bytes()) == (b"failed\n", b"note\nnote\n")


async def test_lines_come_in_the_order_in_which_they_were_asked_for(paths: ArtifactPaths) -> None:
    heard: list[int] = []
    async with writing_artifacts(paths) as writer, asyncio.TaskGroup() as group:
        for number in range(500):
            group.create_task(writer.result([b"%d" % number], b"j", partial(heard.append, number)))
    assert paths.results.read_bytes() == b"".join(b"%d\n" % number for number in range(500))
    assert heard == list(range(500))


async def test_rows_that_are_written_together_are_heard_of_a_few_in_a_turn(paths: ArtifactPaths) -> None:
    """Whoever hears of its row starts the next rollout in the same turn of the loop."""
    turn, heard = 0, list[int]()
    async with writing_artifacts(paths) as writer, asyncio.TaskGroup() as group:
        for _ in range(40):
            group.create_task(writer.result([b"row"], b"j", lambda: heard.append(turn)))
        while len(heard) < 40:
            await asyncio.sleep(0)
            turn += 1
    assert max(Counter(heard).values()) <= 3 + 40 // 8


async def test_the_end_of_the_files_leaves_nobody_waiting(paths: ArtifactPaths) -> None:
    heard: list[int] = []
    async with writing_artifacts(paths) as writer:
        tasks = [asyncio.create_task(writer.result([b"row"], b"j", partial(heard.append, 1))) for _ in range(40)]
        await asyncio.sleep(0)
    assert len(heard) == 40
    await asyncio.gather(*tasks)


async def test_a_caller_that_is_cancelled_has_its_line_written_and_counted(paths: ArtifactPaths) -> None:
    heard: list[str] = []
    async with writing_artifacts(paths) as writer:
        task = asyncio.create_task(writer.result([b"row"], b"j", lambda: heard.append("written")))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        await writer.flushed()
        assert heard == ["written"]
    assert paths.results.read_bytes() == b"row\n"


async def test_flushed_waits_for_everything_asked_for(paths: ArtifactPaths) -> None:
    async with writing_artifacts(paths) as writer:
        for number in range(300):
            writer.note(b"%d" % number)
        await writer.flushed()
        assert paths.journal.read_bytes().count(b"\n") == 300


@pytest.mark.usefixtures("small_disk")
async def test_a_full_disk_fails_every_later_line_and_leaves_whole_ones(paths: ArtifactPaths) -> None:
    heard: list[str] = []
    async with writing_artifacts(paths) as writer:
        await writer.result([b"a" * 6000], b"j", lambda: heard.append("first"))
        with pytest.raises(ArtifactError, match="cannot write"):
            await writer.result([b"b" * 6000], b"j", lambda: heard.append("second"))
        with pytest.raises(ArtifactError):
            await writer.failure(b"c", b"j", lambda: heard.append("third"))
        with pytest.raises(ArtifactError):
            writer.note(b"j")
        await writer.flushed()
    assert heard == ["first"]
    assert paths.results.read_bytes() == b"a" * 6000 + b"\n"


async def test_a_bug_in_a_callback_reaches_the_caller_and_not_the_others(paths: ArtifactPaths) -> None:
    def bug() -> None:
        raise KeyError("a bug")

    async with writing_artifacts(paths) as writer:
        results = await asyncio.gather(
            writer.result([b"a"], b"j", bug), writer.result([b"b"], b"j", lambda: None), return_exceptions=True
        )
    assert isinstance(results[0], KeyError)
    assert results[1] is None
    assert paths.results.read_bytes() == b"a\nb\n"
