"""JSON Lines on disk: only `\\n` ends a line, a torn end is repaired, a line is written whole or not at all."""

import resource
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollgym.common.errors import ArtifactError
from rollgym.driver.artifacts.lines import BLOCK_BYTES, LineAppender, read_lines, repair_torn_end, set_aside


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rows.jsonl"


@settings(max_examples=40)
@given(st.lists(st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"])), max_size=6))
def test_what_is_appended_is_read(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    path = tmp_path_factory.mktemp("lines") / "rows.jsonl"
    contents = [text.encode() for text in texts]
    appender = LineAppender(path)
    for content in contents:
        appender.append(content)
    appender.close()
    first = contents[0].removeprefix(b"\xef\xbb\xbf") if contents else b""
    expected = [content for content in [first, *contents[1:]] if content.strip()]
    assert [line.content for line in read_lines(path)] == expected


def test_lines_know_their_number_and_where_they_begin(path: Path) -> None:
    path.write_bytes(b"\xef\xbb\xbfa\n\n  \nbc\r\n\xe2\x80\xa8d")
    found = list(read_lines(path))
    assert [(line.number, line.content) for line in found] == [(1, b"a"), (4, b"bc"), (5, b"\xe2\x80\xa8d")]
    whole = path.read_bytes()
    assert all(whole[line.offset :].startswith(line.content) for line in found)


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("begins", [0, 1, 1000], ids=["first", "after-a-blank", "after-a-line"])
@pytest.mark.parametrize("ends", [BLOCK_BYTES + apart for apart in (-2, -1, 0, 1)] + [3 * BLOCK_BYTES + 5])
def test_a_line_is_whole_wherever_the_blocks_of_the_file_end(
    path: Path, ends: int, begins: int, line_end: bytes
) -> None:
    before = b"b" * (begins - 1) + b"\n" if begins else b""
    long = bytes(range(32, 128)) * (ends // 96 + 1)
    contents = [before[:-1], long[: ends - begins], b"c", long[:ends], b"d"]
    path.write_bytes(before + line_end.join(contents[1:]))
    found = list(read_lines(path))
    assert [line.content for line in found] == [content for content in contents if content]
    whole = path.read_bytes()
    assert all(whole.startswith(line.content, line.offset) for line in found)


def test_a_long_line_is_held_once(path: Path) -> None:
    size = 16 * BLOCK_BYTES
    path.write_bytes(b"x" * size + b"\n")
    tracemalloc.start()
    try:
        lengths = [len(line.content) for line in read_lines(path)]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert lengths == [size]
    assert peak < 1.5 * size


@pytest.mark.parametrize(
    ("content", "kept", "torn"),
    [
        (b"a\nb\n", b"a\nb\n", b""),
        (b"a\nb", b"a\n", b"b"),
        (b"torn", b"", b"torn"),
        (b"a\n" + b"x" * 3_000_000, b"a\n", b"x" * 3_000_000),
        (b"", b"", b""),
    ],
    ids=["whole", "torn", "only-a-torn-line", "torn-over-several-blocks", "empty"],
)
def test_a_torn_end_is_set_aside_with_its_bytes(path: Path, content: bytes, kept: bytes, torn: bytes) -> None:
    path.write_bytes(content)
    assert repair_torn_end(path) == len(torn)
    assert path.read_bytes() == kept
    aside = path.with_name(path.name + ".torn")
    assert (aside.read_bytes() if aside.exists() else b"") == (torn + b"\n" if torn else b"")
    assert repair_torn_end(path) == 0


def test_a_second_torn_end_is_kept_beside_the_first(path: Path) -> None:
    for content in (b"one", b"two"):
        path.write_bytes(content)
        repair_torn_end(path)
    assert path.with_name("rows.jsonl.torn").read_bytes() == b"one\ntwo\n"


def test_a_file_that_is_not_there_has_no_torn_end(path: Path) -> None:
    assert repair_torn_end(path) == 0
    assert not path.exists()


def test_lines_set_aside_leave_the_rest_as_it_was(path: Path) -> None:
    path.write_bytes(b"a\nbad\n\xe2\x80\xa8b\nbad2\n")
    set_aside(path, {2, 4})
    assert path.read_bytes() == b"a\n\xe2\x80\xa8b\n"
    assert path.with_name("rows.jsonl.bad").read_bytes() == b"bad\nbad2\n"
    assert sorted(each.name for each in path.parent.iterdir()) == ["rows.jsonl", "rows.jsonl.bad"]


@pytest.fixture
def small_disk() -> Iterator[None]:
    """No file of this process can grow over 10,000 bytes, as on a disk with no room."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("pieces", [1, 700], ids=["at-once", "in-many-pieces"])
@pytest.mark.usefixtures("small_disk")
def test_a_line_that_does_not_fit_is_taken_back_whole(path: Path, pieces: int) -> None:
    appender = LineAppender(path)
    appender.append(b"a" * 6000)
    with pytest.raises(ArtifactError, match="can go on with --resume") as failed:
        appender.append_block([b"b" * (6000 // pieces)] * pieces + [b"\n"])
    assert failed.value.data == {"path": str(path)}
    assert path.read_bytes() == b"a" * 6000 + b"\n"
    appender.append(b"c")
    appender.close()
    assert path.read_bytes().endswith(b"\nc\n")


def test_a_folder_that_is_not_there_is_an_artifact_error(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="cannot open"):
        LineAppender(tmp_path / "nowhere" / "rows.jsonl")
