"""One row posted to an agent server's `/run`: whose fault what is, and that no login is in what is said of it."""

import asyncio
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.driver.bulk_http.posting import Posting
from integration.driver.bulk_http.scripted_server import Peer, Script, listening_socket, scripted
from rollgym.common.errors import AgentRequestFailed, ArtifactError, PayloadTooLarge
from rollgym.driver.agent_server import post_run
from rollgym.driver.materialized import MaterializedRows, RowLabels
from rollgym.driver.outcomes import Attempt
from rollgym.driver.owed_row import OwedRow
from rollgym.driver.payload_memory import LARGEST_SHARE, PayloadMemory
from waiting import eventually

SENT = b'{"_ng_task_index":0}'
OK = b"HTTP/1.1 200 OK\r\n"


@pytest.fixture
def row(tmp_path: Path) -> Iterator[OwedRow]:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(SENT + b"\n")
    rows = MaterializedRows(path, size_bytes=len(SENT) + 1)
    rows.add(0, (0, 0), RowLabels("mine", b'{"name":"mine"}', None))
    yield OwedRow(rows, Attempt(position=0, key=(0, 0), number=1))
    rows.close()


async def post(bulk: Posting, url: str, row: OwedRow, limit_bytes: int = 1 << 20) -> bytes:
    sending = PayloadMemory()
    try:
        with bulk.memory.reservation() as memory:
            return bytes(await post_run(bulk.client, url, row, sending, memory, limit_bytes))
    finally:
        assert sending.used_bytes == 0


def answering(answer: bytes, requests: list[bytes]) -> Script:
    async def script(peer: Peer) -> None:
        requests.append(await peer.request())
        await peer.send(answer)
        peer.close()

    return script


async def test_a_row_with_its_attempt_is_posted_and_the_answer_is_its_body(bulk: Posting, row: OwedRow) -> None:
    requests: list[bytes] = []
    async with scripted(answering(OK + b"\r\n{}", requests)) as server:
        assert await post(bulk, server.url.removesuffix("/run"), row) == b"{}"
    assert requests[0].endswith(b'\r\n\r\n{"_ng_task_index":0,"_ng_attempt_index":1}')


async def test_a_first_attempt_is_posted_as_the_row_stands_in_its_file(bulk: Posting, row: OwedRow) -> None:
    requests: list[bytes] = []
    first = OwedRow(row.rows, Attempt(position=0, key=(0, 0), number=0))
    async with scripted(answering(OK + b"\r\n{}", requests)) as server:
        assert await post(bulk, server.url.removesuffix("/run"), first) == b"{}"
    assert requests[0].endswith(b"\r\n\r\n" + SENT)


@pytest.mark.parametrize(
    ("answer", "says", "terminal"),
    [
        (b"", "without an answer", None),
        (b"rubbish", "no HTTP", None),
        (OK + b"Content-Length: 9\r\n\r\n{}", "broke off", None),
        (b"HTTP/1.1 500 Oops\r\n\r\n", r"answered 500: \(empty body\)", False),
        (b'HTTP/1.1 422 No\r\n\r\n{"detail": "wrong row"}', "answered 422: wrong row", True),
        (b"HTTP/1.1 400 No\r\n\r\n" + b"[" * 100_000, r"answered 400: \[\[", True),
        (b"HTTP/1.1 400 No\r\n\r\n\xff\xfe", "answered 400: ", True),
        (b"HTTP/1.1 304 No\r\n\r\n", "answered 304", True),
    ],
    ids=["nothing", "rubbish", "half", "500", "422", "nested-deeply", "no-text", "304"],
)
async def test_what_went_wrong_is_said_and_no_login_with_it(
    bulk: Posting, row: OwedRow, answer: bytes, says: str, terminal: bool | None
) -> None:
    requests: list[bytes] = []
    async with scripted(answering(answer, requests)) as server:
        url = server.url.replace("//", "//per%40son:S3NT1NEL@").removesuffix("/run")
        with pytest.raises(AgentRequestFailed, match=says) as failed:
            await post(bulk, url, row)
    assert failed.value.data.get("terminal") == terminal
    assert "S3NT1NEL" not in f"{failed.value} {failed.value.data} {failed.value.__cause__}"
    assert b"Authorization: Basic " + b64encode(b"per@son:S3NT1NEL") + b"\r\n" in requests[0]
    assert b"S3NT1NEL" not in requests[0]


async def test_nothing_listens(bulk: Posting, row: OwedRow) -> None:
    with listening_socket() as closed:
        port = closed.getsockname()[1]
    with pytest.raises(AgentRequestFailed, match="Connect call failed") as failed:
        await post(bulk, f"http://me:S3NT1NEL@127.0.0.1:{port}", row)
    assert "terminal" not in failed.value.data
    assert "S3NT1NEL" not in f"{failed.value} {failed.value.data}"


async def test_an_answer_over_the_limit(bulk: Posting, row: OwedRow) -> None:
    async with scripted(answering(OK + b"Content-Length: 2000000\r\n\r\n", [])) as server:
        with pytest.raises(PayloadTooLarge):
            await post(bulk, server.url.removesuffix("/run"), row)


async def test_a_server_whose_answers_stop_keeps_no_other_servers_rollout_waiting(bulk: Posting, row: OwedRow) -> None:
    async def stopping(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK + b"Content-Length: 3000000\r\n\r\n" + b"x" * 1000)
        await peer.left()

    full = b"x" * 100_000
    bulk.memory = memory = PayloadMemory(8 << 20, looked_at_every_s=60)
    async with scripted(stopping) as slow, scripted(answering(OK + b"\r\n" + full, [])) as fast:
        stopped = [
            asyncio.create_task(post(bulk, slow.url.removesuffix("/run"), row, 1 << 22))
            for _ in range(2 * LARGEST_SHARE)
        ]
        await eventually(lambda: memory.used_bytes == memory.limit_bytes)
        async with asyncio.timeout(5):
            assert await post(bulk, fast.url.removesuffix("/run"), row) == full
        for each in stopped:
            each.cancel()
        await asyncio.gather(*stopped, return_exceptions=True)
    assert memory.used_bytes == 0


@pytest.mark.parametrize("attempt", [0, 1])
@pytest.mark.parametrize("change", ["gone", "shorter"])
async def test_a_row_that_is_not_there_any_more_is_no_agents_fault(
    bulk: Posting, row: OwedRow, change: str, attempt: int
) -> None:
    row = OwedRow(row.rows, Attempt(position=0, key=(0, 0), number=attempt))
    if change == "gone":
        row.rows.path.unlink()
    else:
        row.rows.path.write_bytes(SENT[:9])
    async with scripted(Peer.left) as server:
        with pytest.raises(ArtifactError, match=r"rows\.jsonl"):
            await post(bulk, server.url.removesuffix("/run"), row)
