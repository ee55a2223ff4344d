"""Bad input over real sockets: a clear answer each time, and a head that goes on."""

import httpx
import pytest

from processes import RunningCommand, running


@pytest.mark.parametrize(
    ("method", "path", "content", "status", "code"),
    [
        ("PUT", "/v1/runs/r1", b"", 400, "bad_request"),
        ("PUT", "/v1/runs/r1", b"{", 400, "bad_request"),
        ("PUT", "/v1/runs/r1", b"[" * 60_000, 400, "bad_request"),
        ("PUT", "/v1/runs/r1", b'{"state": "running", "started_at": Infinity}', 400, "bad_request"),
        ("PUT", "/v1/runs/r1", b'{"state": "running", "started_at": 1e999}', 400, "bad_request"),
        ("PUT", "/v1/runs/r1", b'{"state": "\\ud800", "started_at": 1}', 400, "bad_request"),
        ("PUT", "/v1/runs/r1", b'{"state": "failed", "owed": ' + b"9" * 400 + b"}", 400, "bad_request"),
        ("PUT", "/v1/runs/r1", b'"' + b"x" * 70_000 + b'"', 413, "payload_too_large"),
        ("PUT", "/v1/runs/%20", b"{}", 400, "bad_request"),
        ("PUT", "/v1/servers/a-1", b"null", 400, "bad_request"),
        ("GET", "/v1/runs?limit=nine", None, 400, "bad_request"),
        ("GET", "/v1/runs/r1", None, 404, "run_unknown"),
        ("GET", "/v1/nothing", None, 404, "not_found"),
        ("POST", "/v1/runs", b"{}", 405, "method_not_allowed"),
    ],
    ids=["empty", "cut", "deep", "Infinity", "1e999", "lone surrogate", "huge integer", "too large", "blank id", "null",
         "limit", "unknown run", "unknown route", "wrong method"],
)  # fmt: skip
async def test_a_bad_request_gets_a_clear_answer(
    shared_head: RunningCommand,
    client: httpx.AsyncClient,
    method: str,
    path: str,
    content: bytes | None,
    status: int,
    code: str,
) -> None:
    before = len(shared_head.log())
    answer = await client.request(method, shared_head.url + path, content=content)
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert set(answer.json()) == {"code", "message", "data"}
    assert (await client.get(f"{shared_head.url}/health")).status_code == 200
    said = shared_head.log()[before:]
    assert "Traceback" not in said
    assert "exception" not in said


async def test_a_taken_port_is_one_line_and_exit_2(shared_head: RunningCommand) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"ended with 2\n[^{]*cannot listen on"):
        async with running("gym-head", "serve", "--port", str(shared_head.port), "--database", ":memory:"):
            pass
