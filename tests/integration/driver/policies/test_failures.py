"""What a model endpoint can do wrong, and what the policy makes of it: both dialects, the same table."""

import asyncio
import time
from typing import Any

import pytest

from integration.driver.policies.conversations import ask, chat_answer, chat_chunks, responses_answer, responses_events
from integration.driver.policies.model_server import KEY, Answer, model_server, settings
from rollgym.common.errors import BadRequest, ModelError, ModelTimeout
from rollgym.common.failures import FailureClass, failure_class
from rollgym.driver.http_client import LocalResourceError
from rollgym.driver.policies import PolicySettings

KINDS = ["openai-responses", "openai-chat"]
kinds = pytest.mark.parametrize("kind", KINDS)
HTML = b"<!doctype html><title>Welcome</title>"


def good(kind: str) -> Any:
    return responses_answer() if kind == "openai-responses" else chat_answer()


@kinds
@pytest.mark.parametrize(
    ("answer", "said", "terminal"),
    [
        pytest.param(Answer({"error": f"bad key {KEY}"}, 401), "401 .*API key is missing or wrong", True, id="401"),
        pytest.param(Answer({"error": "no"}, 403), "403", True, id="403"),
        pytest.param(Answer({"detail": "Not Found"}, 404), "404 .*base_url", True, id="404"),
        pytest.param(Answer({"error": "too long"}, 400), "400 .*too long", True, id="400"),
        pytest.param(Answer(HTML, 404), "404 .*Welcome", True, id="html-404"),
        pytest.param(Answer(b"", 301, {"Location": "http://x/v1"}), "redirects to http://x/v1", True, id="redirect"),
        pytest.param(Answer(HTML), "is HTML or XML", True, id="html"),
        pytest.param(Answer(b""), "the answer is empty", None, id="empty"),
        pytest.param(Answer(b"{'a': 1}"), "no JSON|no Responses object", None, id="no-json"),
        pytest.param(Answer([1]), "no Responses object|no chat completion", None, id="list"),
        pytest.param(Answer({"hello": 1}), "no Responses object|no chat completion", None, id="other-object"),
    ],
)
async def test_wrong_answers_are_model_errors_after_one_call(
    kind: str, answer: Answer, said: str, *, terminal: bool | None
) -> None:
    async with model_server(answer) as server:
        with pytest.raises(ModelError, match=said) as caught:
            await ask(settings(server, kind))
    assert len(server.requests) == 1
    assert caught.value.data.get("terminal") is terminal
    assert KEY not in str(caught.value) + str(caught.value.data)


@kinds
@pytest.mark.parametrize(
    "failing",
    [
        pytest.param(Answer("busy", 408), id="408"),
        pytest.param(Answer("busy", 409), id="409"),
        pytest.param(Answer("busy", 429), id="429"),
        pytest.param(Answer(HTML, 500), id="500"),
        pytest.param(Answer("busy", 503), id="503"),
        pytest.param(Answer(drop=True), id="dropped-connection"),
    ],
)
async def test_what_time_can_heal_is_tried_again(kind: str, failing: Answer) -> None:
    async with model_server(failing, failing, Answer(good(kind))) as server:
        turn = await ask(settings(server, kind))
    assert len(server.requests) == 3
    assert server.requests[0] == server.requests[2]
    assert len(turn.output) == 4


@kinds
async def test_retries_end_with_the_last_failure(kind: str) -> None:
    async with model_server(Answer({"error": "overloaded"}, 503)) as server:
        with pytest.raises(ModelError, match=r"503: .*overloaded") as caught:
            await ask(settings(server, kind, max_retries=2))
    assert len(server.requests) == 3
    assert caught.value.data["attempts"] == 3
    assert caught.value.data["terminal"] is False


@kinds
async def test_retry_after_is_honoured(kind: str) -> None:
    async with model_server(Answer("busy", 429, {"Retry-After": "0.3"}), Answer(good(kind))) as server:
        began = time.monotonic()
        await ask(settings(server, kind))
    assert time.monotonic() - began >= 0.3


@kinds
async def test_a_wait_past_the_rollouts_end_is_not_begun(kind: str) -> None:
    async with model_server(Answer("busy", 429, {"Retry-After": "3600"})) as server:
        with pytest.raises(ModelError, match="429") as caught:
            await ask(settings(server, kind), deadline=asyncio.get_running_loop().time() + 60)
    assert len(server.requests) == 1
    assert caught.value.data["retry_would_wait_s"] >= 3600


@kinds
async def test_a_model_that_never_answers_is_a_timeout_and_not_asked_again(kind: str) -> None:
    async with model_server(Answer(hang=True)) as server:
        with pytest.raises(ModelTimeout, match=r"request_timeout_s = 0\.2 s") as caught:
            await ask(settings(server, kind, request_timeout_s=0.2))
        assert len(server.requests) == 1
    assert failure_class(caught.value) is FailureClass.MODEL_TIMEOUT


@kinds
async def test_nothing_listening_is_a_model_error_after_its_retries(kind: str) -> None:
    unused = PolicySettings(kind=kind, model="m", base_url="http://127.0.0.1:9/v1", max_retries=1, backoff_s=0.01)
    with pytest.raises(ModelError, match=r"127\.0\.0\.1:9") as caught:
        await ask(unused)
    assert caught.value.data["attempts"] == 2


@kinds
async def test_cancelling_the_rollout_cancels_its_call(kind: str) -> None:
    async with model_server(Answer(hang=True)) as server:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await ask(settings(server, kind))


@pytest.mark.parametrize(
    ("kind", "answer", "reason"),
    [
        pytest.param(
            "openai-responses",
            responses_answer(status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
            "max_output_tokens",
            id="responses",
        ),
        pytest.param("openai-chat", chat_answer(finish_reason="length"), "length", id="chat"),
    ],
)
async def test_an_answer_cut_by_length_is_an_incomplete_turn_not_a_failure(kind: str, answer: Any, reason: str) -> None:
    async with model_server(Answer(answer)) as server:
        turn = await ask(settings(server, kind))
    assert (turn.finish, turn.finish_reason) == ("incomplete", reason)


@pytest.mark.parametrize(
    ("kind", "answer", "said"),
    [
        pytest.param(
            "openai-responses",
            responses_answer(status="failed", error={"code": "server_error", "message": "boom"}),
            "boom",
            id="responses-failed",
        ),
        pytest.param("openai-chat", {"error": {"message": "boom", "code": 502}}, "boom", id="chat-error-in-a-200"),
    ],
)
async def test_a_failure_told_in_a_200_is_tried_again(kind: str, answer: Any, said: str) -> None:
    async with model_server(Answer(answer)) as server:
        with pytest.raises(ModelError, match=said):
            await ask(settings(server, kind, max_retries=1))
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("kind", "events"),
    [
        pytest.param("openai-responses", responses_events()[:-1], id="responses-cut"),
        pytest.param("openai-chat", chat_chunks()[:4], id="chat-cut"),
        pytest.param("openai-responses", [{"type": "error", "message": "x"}], id="responses-error-event"),
        pytest.param("openai-responses", [b'{"error": {"message": "x"}}'], id="responses-untyped-error"),
        pytest.param("openai-chat", [{"error": {"message": "x"}}], id="chat-error-event"),
    ],
)
async def test_a_broken_stream_is_tried_again(kind: str, events: list[Any]) -> None:
    whole = responses_events() if kind == "openai-responses" else chat_chunks()
    async with model_server(Answer(events=events), Answer(events=whole)) as server:
        turn = await ask(settings(server, kind, stream=True))
    assert len(server.requests) == 2
    assert len(turn.output) == 4


async def test_running_out_of_descriptors_is_not_blamed_on_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: Any, **__: Any) -> Any:
        raise OSError(24, "Too many open files")

    policy = PolicySettings(kind="openai-chat", model="m", base_url="http://127.0.0.1:9/v1")
    monkeypatch.setattr("socket.socket", exhausted)
    with pytest.raises(LocalResourceError, match="no file descriptor left") as caught:
        await ask(policy)
    assert failure_class(caught.value) is FailureClass.INTERNAL


@kinds
async def test_a_task_without_a_model_name_is_refused_before_anything_is_sent(kind: str) -> None:
    async with model_server(Answer(good(kind))) as server:
        with pytest.raises(BadRequest, match="no model"):
            await ask(settings(server, kind, model=None))
    assert server.requests == []
