"""A real OpenAI-compatible server, the litellm proxy with mock answers, asked by both policies and openai's client."""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from integration.driver.policies.conversations import QUESTION, WEATHER, ask
from needs import peer_python
from rollgym.common import jsonx
from rollgym.common.errors import ModelError
from rollgym.driver.policies import ModelTurn, PolicySettings
from rollgym.driver.policies.chat_request import chat_messages, chat_tools
from waiting import wait_until

pytestmark = [pytest.mark.peer("litellm"), pytest.mark.timeout(240)]
CONFIG = Path(__file__).with_name("litellm_config.yaml")
MASTER_KEY = "sk-peer-test-only"
START_TIMEOUT_S = 180.0
OFFLINE = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_MASTER_KEY": MASTER_KEY,
    "LITELLM_TELEMETRY": "False",
    "NO_DOCS": "True",
}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("litellm")
    port = free_port()
    argv = [str(peer_python("litellm")), "-m", "litellm.proxy.proxy_cli", "--config", str(CONFIG)]
    argv += ["--host", "127.0.0.1", "--port", str(port)]
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **OFFLINE},
            cwd=folder,
            start_new_session=True,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: _alive(url, process, log), START_TIMEOUT_S, pause_s=0.2)
        yield f"{url}/v1"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)


def _alive(url: str, process: "subprocess.Popen[bytes]", log: Path) -> bool:
    if process.poll() is not None:
        pytest.fail(
            f"litellm ended with {process.returncode}: {log.read_text(errors='replace')[-2000:]}", pytrace=False
        )
    return httpx.get(f"{url}/health/liveliness", timeout=2).status_code == 200


def policy(url: str, kind: str, model: str, **fields: object) -> PolicySettings:
    values = {"api_key": MASTER_KEY, "backoff_s": 0.01, "max_backoff_s": 0.02, "max_retries": 1, **fields}
    return PolicySettings.model_validate({"kind": kind, "base_url": url, "model": model, **values})


def typed(plain: list[dict[str, Any]]) -> Any:
    """Plain dictionaries where the client's signatures want its typed ones."""
    return plain


def said(turn: ModelTurn) -> list[str]:
    items = [jsonx.loads(item) for item in turn.output]
    return [part["text"] for item in items if item["type"] == "message" for part in item["content"]]


@pytest.mark.parametrize(
    ("kind", "stream"),
    [("openai-chat", False), ("openai-chat", True), ("openai-responses", False)],
    ids=["chat", "chat-streamed", "responses"],
)
async def test_both_dialects_are_answered(proxy: str, kind: str, *, stream: bool) -> None:
    turn = await ask(policy(proxy, kind, "mock-text", stream=stream), tools=())
    assert said(turn) == ["It is sunny in Lisbon."]
    assert turn.finish == "completed"
    assert turn.response_id
    assert (turn.timing.ttft_s is not None) is stream
    if not stream:
        assert turn.usage is not None
        assert turn.usage.total_tokens


async def test_parallel_tool_calls_are_what_openais_client_sees(proxy: str) -> None:
    async with openai.AsyncOpenAI(base_url=proxy, api_key=MASTER_KEY, max_retries=0) as client:
        completion = await client.chat.completions.create(
            model="mock-tools",
            messages=typed(chat_messages([QUESTION])),
            tools=typed(chat_tools([WEATHER])),
        )
    turn = await ask(policy(proxy, "openai-chat", "mock-tools"))
    (message,) = chat_messages([jsonx.loads(item) for item in turn.output])
    theirs = completion.choices[0].message.model_dump(exclude_none=True)
    assert message["tool_calls"] == [
        {key: call[key] for key in ("id", "type", "function")} for call in theirs["tool_calls"]
    ]
    assert message["content"] == theirs["content"] == "Let me look."


async def test_a_conversation_with_tool_outputs_is_accepted(proxy: str) -> None:
    first = await ask(policy(proxy, "openai-chat", "mock-tools"))
    outputs = [{"type": "function_call_output", "call_id": f"call_{n}", "output": "sunny"} for n in (1, 2)]
    history = [QUESTION, *(jsonx.loads(item) for item in first.output), *outputs]
    for kind in ("openai-chat", "openai-responses"):
        turn = await ask(policy(proxy, kind, "mock-text"), history)
        assert said(turn) == ["It is sunny in Lisbon."]


async def test_the_responses_items_are_what_openais_client_sees(proxy: str) -> None:
    async with openai.AsyncOpenAI(base_url=proxy, api_key=MASTER_KEY, max_retries=0) as client:
        answer = await client.responses.create(model="mock-text", input="Weather?")
    turn = await ask(policy(proxy, "openai-responses", "mock-text"), tools=())
    theirs = [item.model_dump(exclude_unset=True) for item in answer.output]
    ours = [jsonx.loads(item) for item in turn.output]
    assert [{**item, "id": None} for item in ours] == [{**item, "id": None} for item in theirs]


@pytest.mark.parametrize("kind", ["openai-chat", "openai-responses"])
async def test_a_wrong_key_and_a_wrong_model_are_final(proxy: str, kind: str) -> None:
    with pytest.raises(ModelError, match=r"answered 4\d\d") as unknown:
        await ask(policy(proxy, kind, "mock-text", api_key="sk-wrong-key-0123456789"))
    assert unknown.value.data["terminal"] is True
    assert "sk-wrong-key" not in str(unknown.value)
    with pytest.raises(ModelError, match=r"answered 4\d\d") as nameless:
        await ask(policy(proxy, kind, "no-such-model"))
    assert nameless.value.data["attempts"] == 1


async def test_a_rate_limit_is_tried_again(proxy: str) -> None:
    with pytest.raises(ModelError, match=r"429.*RateLimitError") as caught:
        await ask(policy(proxy, "openai-chat", "mock-busy"), tools=())
    assert caught.value.data["attempts"] == 2
