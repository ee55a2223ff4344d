"""Bad input, row by row: the exit code, the words that say what is wrong, and that nothing was lost or started."""

import contextlib
import json
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from integration.driver.runs import FAST, UNTUNED, Ended, RunFolder, gym, keys
from integration.driver.servers import Stack
from integration.driver.stub_agent import serving_app
from rollgym.common.failures import FailureClass
from rollgym.driver.artifacts.lock import output_lock

ECHO = {"responses_create_params": {"input": "x"}, "env": "echo"}
GOOD = json.dumps(ECHO).encode() + b"\n"


@dataclass(frozen=True)
class Case:
    """A mistake: the task file or the words that make it, and how the command must meet it."""

    tasks: bytes | None = GOOD
    words: tuple[str, ...] = ()
    said: tuple[str, ...] = ()
    code: int = 2
    rows: int = 0
    only_servers_know: bool = False
    prepare: Callable[[RunFolder], None] = field(default=lambda _: None)


def folder_in_the_way(run: RunFolder) -> None:
    run.paths.results.mkdir(parents=True)


def file_as_parent(run: RunFolder) -> None:
    run.paths.results.parent.write_text("a file")


def line(**fields: Any) -> bytes:
    return json.dumps(ECHO | fields).encode() + b"\n"


BIG = line(responses_create_params={"input": "x" * (20 << 20)})
TASK_FILES = {
    "task-file-missing": Case(tasks=None, said=("cannot read", "tasks.jsonl", "No such file")),
    "task-file-empty": Case(tasks=b"", said=("tasks.jsonl holds no task line",)),
    "task-file-blank-lines": Case(tasks=b"\n \n", said=("tasks.jsonl holds no task line",)),
    "line-no-json": Case(tasks=GOOD + b"{oops}\n", said=("tasks.jsonl: line 2: is no JSON",)),
    "line-no-object": Case(tasks=GOOD + b"[1]\n", said=("tasks.jsonl: line 2: is no JSON object",)),
    "line-not-utf-8": Case(tasks=GOOD + b'{"a": "\xff"}\n', said=("tasks.jsonl: line 2: is not UTF-8 (byte 7)",)),
    "line-without-params": Case(tasks=GOOD + b"{}\n", said=("line 2: has no responses_create_params",)),
    "line-with-unknown-env": Case(
        tasks=GOOD + line(env="gridsin"),
        said=("line 2: unknown environment 'gridsin'", "did you mean gridsim?"),
        only_servers_know=True,
    ),
    "line-with-a-seed-that-is-no-number": Case(
        tasks=GOOD + line(seed="x"), said=("line 2: seed must be an integer",), only_servers_know=True
    ),
    "several-bad-lines": Case(tasks=b"{\n[]\n{}\n", said=("line 1: ", "line 2: ", "line 3: ")),
    "line-of-33-megabytes": Case(tasks=line(padding="x" * (33 << 20)), said=("line 1: has 34,", "at most 33,554,432")),
    "line-of-20-megabytes": Case(tasks=BIG, code=0, rows=1),
    "u2028-inside": Case(tasks=line(note="a\u2028b").replace(rb"\u2028", "\u2028".encode()), code=0, rows=1),
    "bom": Case(tasks=b"\xef\xbb\xbf" + GOOD, code=0, rows=1),
    "crlf": Case(tasks=GOOD.replace(b"\n", b"\r\n") * 2, code=0, rows=2),
}
SETTINGS = {
    "limit-zero": Case(words=("--limit", "0"), code=0),
    "limit-negative": Case(words=("--limit=-1",), said=("limit: ", "greater than or equal to 0")),
    "limit-no-number": Case(words=("--limit", "many"), said=("--limit", "'many'")),
    "repeats-zero": Case(words=("++num_repeats=0",), said=("num_repeats: must be 1 or more; use limit=0",)),
    "concurrency-zero": Case(words=("--concurrency", "0"), said=("num_samples_in_parallel: ", "1")),
    "thresholds-with-zero": Case(
        words=("++driver_gc_thresholds=[0,50,100]",), said=("each threshold must be 1 or more",)
    ),
    "thresholds-empty": Case(words=("++driver_gc_thresholds=[]",), said=("takes 1 to 3 numbers",)),
    "thresholds-four": Case(words=("++driver_gc_thresholds=[1,2,3,4]",), said=("takes 1 to 3 numbers",)),
    "thresholds-text": Case(words=("++driver_gc_thresholds=often",), said=("takes 1 to 3 whole numbers", "often")),
    "override-with-a-typo": Case(words=("++num_repeat=2",), said=("num_repeat", "did you mean num_repeats?")),
    "override-with-a-typo-inside": Case(words=("++policy.skil=expert",), said=("did you mean policy.skill?",)),
    "flag-with-a-typo": Case(words=("--num-repeat5", "2"), said=("--num-repeat5", "did you mean --num-repeats?")),
    "policy-of-unknown-kind": Case(words=("--policy", "openai-chats"), said=("did you mean 'openai-chat'?",)),
    "policy-module-missing": Case(words=("--policy", "no_such_module:Own"), said=("no module named 'no_such_module'",)),
    "policy-class-missing": Case(
        words=("--policy", "integration.driver.watching_policy:Watchin"), said=("no class 'Watchin'", "'Watching'")
    ),
    "policy-module-broken": Case(
        words=("--policy", "integration.driver.broken_policy:Own"), said=("fails to import", "on purpose")
    ),
    "policy-without-its-endpoint": Case(words=("--policy", "openai-chat"), said=("needs base_url",)),
    "config-file-missing": Case(words=("--config", "/nowhere/run.yaml"), said=("/nowhere/run.yaml",)),
}
PLACES = {
    "output-is-a-folder": Case(prepare=folder_in_the_way, said=("rollouts.jsonl is a folder",)),
    "output-without-a-name": Case(words=("--output", "."), said=("gym: . is a folder; name a file in it",)),
    "output-the-root": Case(words=("--output", "/"), said=("gym: / is a folder; name a file in it",)),
    "output-below-a-file": Case(prepare=file_as_parent, said=("cannot write", "is a file, not a folder")),
    "output-not-writable": Case(
        words=("--output", "/proc/rollouts.jsonl"), said=("cannot write /proc/rollouts.jsonl",)
    ),
    "output-is-the-task-file": Case(words=("--overwrite", "--output", "{input}"), said=("task file",)),
    "metrics-host-not-ours": Case(
        words=("++metrics_host=203.0.113.1",), said=("203.0.113.1", "not one of this machine's")
    ),
}
CASES = TASK_FILES | SETTINGS | PLACES


@pytest.mark.parametrize("name", CASES)
def test_bad_input_is_met_with_its_reason(run: RunFolder, stack: Stack, name: str) -> None:
    case = CASES[name]
    before = made(case, run)
    ended = run.run(stack.head.url, *(word.format(input=run.input) for word in case.words))
    if case.code == 2:
        check_refusal(case, run, ended, before)
    else:
        assert ended.code == case.code, ended
        assert "Traceback" not in ended.err + ended.out
        assert len(run.rows) == case.rows


@pytest.mark.parametrize(
    "name", [name for name, case in CASES.items() if case.code == 2 and not case.only_servers_know]
)
def test_it_is_met_so_before_a_server_of_ones_own_is_started(run: RunFolder, name: str) -> None:
    case = CASES[name]
    before = made(case, run)
    ended = gym(*embedded_words(run), *(word.format(input=run.input) for word in case.words))
    check_refusal(case, run, ended, before)


def made(case: Case, run: RunFolder) -> list[Path]:
    """Make the mistake's files; what is there then."""
    if case.tasks is not None:
        run.input.write_bytes(case.tasks)
    case.prepare(run)
    return sorted(run.folder.rglob("*"))


def embedded_words(run: RunFolder) -> tuple[str, ...]:
    return ("eval", "run", "--input", str(run.input), "--output", str(run.paths.results), *FAST, *UNTUNED)


def check_refusal(case: Case, run: RunFolder, ended: Ended, before: list[Path]) -> None:
    assert ended.code == 2, ended
    for words in case.said:
        assert words in ended.err
    assert "Traceback" not in ended.err + ended.out
    assert all(each.startswith(("gym: ", "gym eval run: ")) for each in ended.err.splitlines()), ended.err
    left = [path for path in sorted(run.folder.rglob("*")) if path not in before]
    assert left in ([], [run.paths.results.parent]), "something was started"
    assert case.tasks is None or run.input.read_bytes() == case.tasks


def an_earlier_run(run: RunFolder) -> contextlib.AbstractContextManager[None]:
    run.paths.results.write_text('{"reward": 1.0}\n')
    return contextlib.nullcontext()


def a_running_driver(run: RunFolder) -> contextlib.AbstractContextManager[None]:
    return output_lock(run.paths.lock)


@pytest.mark.parametrize("holder", [an_earlier_run, a_running_driver])
def test_a_taken_output_keeps_the_logs_of_its_servers(
    run: RunFolder, holder: Callable[[RunFolder], contextlib.AbstractContextManager[None]]
) -> None:
    run.input.write_bytes(GOOD)
    log = run.paths.logs / "resources.log"
    log.parent.mkdir(parents=True)
    log.write_text("what it said\n")
    with holder(run):
        ended = gym(*embedded_words(run))
    assert ended.code == 2, ended
    assert ended.err.startswith(("gym: output_jsonl_fpath: an earlier run", "gym: another driver writes this output"))
    assert log.read_text() == "what it said\n"


def test_a_taken_metrics_port_is_refused_and_leaves_the_output_free(run: RunFolder, stack: Stack) -> None:
    run.input.write_bytes(GOOD)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = run.run(stack.head.url, f"++metrics_port={port}")
    assert ended.code == 2
    assert f"metrics_port: cannot listen on 127.0.0.1:{port}: the port is taken" in ended.err
    assert run.run(stack.head.url).code == 0


def html_head() -> web.Application:
    async def page(_: web.Request) -> web.Response:
        return web.Response(text="<html>a proxy</html>", content_type="text/html")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", page)
    return app


def test_a_head_that_answers_html_is_no_head(run: RunFolder) -> None:
    run.input.write_bytes(GOOD)
    with serving_app(html_head()) as url:
        ended = run.run(url)
        listing = gym("status", "--head", url)
    for each in (ended, listing):
        assert each.code == 2
        assert "does not answer as a head: 200, text/html" in each.err
        assert len(each.err.splitlines()) == 1


@pytest.mark.parametrize("command", [("eval", "run"), ("status",), ("env", "list")], ids=" ".join)
def test_a_head_that_does_not_answer_is_said_in_one_line(run: RunFolder, command: tuple[str, ...]) -> None:
    run.input.write_bytes(GOOD)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    words = run.words(url, "++servers_wait_s=0") if command == ("eval", "run") else (*command, "--head", url)
    ended = gym(*words)
    assert ended.code == 2
    assert f"the head at {url} does not answer" in ended.err
    assert len(ended.err.splitlines()) == 1
    assert not run.paths.manifest.exists()


def step(**arguments: Any) -> dict[str, Any]:
    return {"name": "step", "arguments": arguments}


def played(run: RunFolder, stack: Stack, *calls: dict[str, Any], reset: dict[str, Any] | None = None) -> dict[str, Any]:
    """One rollout whose policy makes these calls, beside a plain one that must not suffer."""
    odd = ECHO | {"scripted": {"calls": list(calls)}} | ({"reset": reset} if reset else {})
    run.tasks([odd, ECHO | {"scripted": {"calls": [step(reward=1.0)]}}])
    summary = run.summary(stack.head.url, "++max_rollout_attempts=1", code=3)
    assert (1, 0) in keys(run.rows)
    return summary


@pytest.mark.parametrize(
    ("arguments", "failure_class"),
    [
        pytest.param({"raw_reward": "NaN"}, FailureClass.INVALID_REWARD, id="nan"),
        pytest.param({"raw_reward": "Infinity"}, FailureClass.INVALID_REWARD, id="infinity"),
        pytest.param({"raw_reward": "-Infinity"}, FailureClass.INVALID_REWARD, id="minus-infinity"),
        pytest.param({"raw_reward": "1e999"}, FailureClass.INVALID_REWARD, id="out-of-range"),
        pytest.param({"raw_reward": '"0.5"'}, FailureClass.INVALID_REWARD, id="a-string"),
        pytest.param({"raw_reward": "[1]"}, FailureClass.INVALID_REWARD, id="a-list"),
        pytest.param({"raw_reward": "1" + "0" * 400}, FailureClass.INVALID_REWARD, id="401-digits"),
        pytest.param({"omit": ["reward"]}, FailureClass.INVALID_REWARD, id="missing"),
        pytest.param(
            {"raw_observation_hex": "22ff22"}, FailureClass.ENV_PROTOCOL, id="observation-of-bytes-that-are-no-text"
        ),
        pytest.param({"raw_observation_hex": "7b"}, FailureClass.ENV_PROTOCOL, id="observation-that-is-no-json"),
    ],
)
def test_an_environments_odd_answer_costs_its_own_rollout_and_is_never_a_zero(
    run: RunFolder, stack: Stack, arguments: dict[str, Any], failure_class: FailureClass
) -> None:
    odd = ECHO | {"scripted": {"calls": [step(done=True, **arguments)]}}
    run.tasks([odd, ECHO | {"scripted": {"calls": [step(reward=1.0)]}}])
    ended = run.run(stack.head.url, "--json", "++max_rollout_attempts=1")
    summary = json.loads(ended.out)
    assert summary["reward"]["mean"] == 1.0
    assert summary["coverage"]["scored"] == 1
    kinds = [row["_ng_failure_class"] for row in run.failures] + [
        row["failure_kind"] for row in run.rows if row.get("mask_sample")
    ]
    assert kinds == [failure_class]


ANSWERS: dict[str, tuple[web.Response | Callable[[], web.Response], FailureClass, str]] = {
    "401": (
        lambda: web.json_response({"error": {"message": "Incorrect API key: sk-S3NT1NEL0123456789"}}, status=401),
        FailureClass.MODEL_ERROR,
        "401",
    ),
    "404": (
        lambda: web.json_response({"error": {"message": "The model `m` does not exist"}}, status=404),
        FailureClass.MODEL_ERROR,
        "does not exist",
    ),
    "html": (
        lambda: web.Response(text="<html>gateway</html>", content_type="text/html"),
        FailureClass.MODEL_ERROR,
        "html",
    ),
    "empty": (lambda: web.Response(body=b""), FailureClass.MODEL_ERROR, "empty"),
}


def model(answer: Callable[[dict[str, Any]], web.Response]) -> web.Application:
    async def complete(request: web.Request) -> web.Response:
        return answer(await request.json())

    app = web.Application(client_max_size=1 << 26)
    app.router.add_post("/v1/chat/completions", complete)
    return app


def model_words(url: str) -> tuple[str, ...]:
    return ("--policy", "openai-chat", "--model", "m", "--model-url", f"{url}/v1", "++policy.max_retries=1",
            "++policy.backoff_s=0.01", "++max_rollout_attempts=1")  # fmt: skip


@pytest.mark.parametrize("name", ANSWERS)
def test_a_model_endpoints_odd_answer_is_a_failure_with_its_cause(run: RunFolder, stack: Stack, name: str) -> None:
    answer, failure_class, said = ANSWERS[name]
    assert callable(answer)
    os.environ["OPENAI_API_KEY"] = "sk-S3NT1NEL0123456789"
    with serving_app(model(lambda _: answer())) as url:
        ended = run.tasks([ECHO, ECHO]).run(stack.head.url, *model_words(url))
    assert ended.code == 3
    assert [row["_ng_failure_class"] for row in run.failures] == [failure_class] * 2
    assert said in run.failures[0]["error_message"].lower()
    assert "Traceback" not in ended.out + ended.err
    assert "S3NT1NEL" not in ended.out + ended.err + json.dumps(run.failures)


def completion(message: dict[str, Any]) -> web.Response:
    finish = "tool_calls" if message.get("tool_calls") else "stop"
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", **message}}
    return web.json_response({"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]})


def test_tool_arguments_that_are_no_json_are_the_models_to_mend(run: RunFolder, stack: Stack) -> None:
    heard: list[str] = []

    def answer(request: dict[str, Any]) -> web.Response:
        tools = [message for message in request["messages"] if message["role"] == "tool"]
        heard.extend(message["content"] for message in tools)
        if tools:
            return completion({"content": "I give up."})
        call = {"id": "call_1", "type": "function", "function": {"name": "step", "arguments": "{reward: 1"}}
        return completion({"content": None, "tool_calls": [call]})

    with serving_app(model(answer)) as url:
        run.tasks([ECHO]).run(stack.head.url, *model_words(url))
    assert len(heard) == 1
    assert "JSON" in heard[0]


def test_an_environment_url_with_nothing_behind_it_fails_by_name_and_in_time(run: RunFolder) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    run.tasks([ECHO | {"env": "nothing"}] * 2)
    files = ("--input", str(run.input), "--output", str(run.paths.results))
    serve = ("++serve.env_bundle=false", f"++serve.envs={{nothing: '{url}'}}", "++serve.resources_args=[--patience,1]")
    ended = gym("eval", "run", *files, *FAST, *serve, "++max_rollout_attempts=1")
    assert ended.code == 3, ended
    assert {row["_ng_failure_class"] for row in run.failures} == {FailureClass.ENV_REFUSED}
    assert url in run.failures[0]["error_message"]
    assert "Traceback" not in ended.err + ended.out


def test_every_session_was_closed_again(stack: Stack) -> None:
    assert stack.sessions() == 0


def test_help_and_version_need_no_server() -> None:
    assert gym("version").code == 0
    assert "driver_gc_thresholds" in gym("eval", "run", "--help").out
    assert gym("evl").code == 2
    assert Path.cwd().exists()
