"""Runs in the peer's own virtual environment: `openenv`'s validator and client against a bundle; reports as JSON."""

import json
import sys
import traceback
from collections.abc import Callable

from openenv.cli.__main__ import app
from openenv.core.generic_client import GenericEnvClient
from typer.testing import CliRunner


def play_gridsim(url: str) -> None:
    with GenericEnvClient(base_url=url).sync() as client:
        tools = client.step({"type": "list_tools"}).observation["tools"]
        assert {tool["name"] for tool in tools} == {"dispatch", "get_forecast", "get_state"}
        client.reset(seed=3, episode_id="peer")
        arguments = {"steam_mw": 150, "peaker_mw": 80}
        dispatch = {"type": "call_tool", "tool_name": "dispatch", "arguments": arguments}
        results = [client.step(dispatch) for _ in range(24)]
        assert [result.done for result in results] == [False] * 23 + [True]
        assert 0.0 <= results[-1].reward <= 1.0
        assert client.state()["episode_id"] == "peer"


def play_wordle(url: str) -> None:
    with GenericEnvClient(base_url=url).sync() as client:
        assert client.reset(seed=3).reward is None
        result = client.step({"guess": "crane"})
        assert isinstance(result.reward, float)
        assert result.observation["tries_left"] == 5


def play_echo(url: str) -> None:
    with GenericEnvClient(base_url=url).sync() as client:
        client.reset(seed=3)
        result = client.step({"message": "hi", "reward": 0.5, "done": True})
        assert (result.observation["message"], result.reward, result.done) == ("hi", 0.5, True)
        told = ""
        try:
            client.step({"message": "too late"})
        except RuntimeError as error:
            told = str(error)
        assert "EXECUTION_ERROR" in told


def validate(url: str) -> None:
    ended = CliRunner().invoke(app, ["validate", "--url", url])
    assert ended.exit_code == 0, ended.output
    assert "Verdict: PASS" in ended.output, ended.output


def outcome(check: Callable[[str], None], url: str) -> str:
    try:
        check(url)
    except Exception:
        return traceback.format_exc()
    return "ok"


def main() -> None:
    url = sys.argv[1]
    report = {"validate root": outcome(validate, url)}
    for name, play in (("gridsim", play_gridsim), ("wordle", play_wordle), ("echo", play_echo)):
        report[f"validate {name}"] = outcome(validate, f"{url}/{name}")
        report[f"play {name}"] = outcome(play, f"{url}/{name}")
    print(json.dumps(report))


if __name__ == "__main__":
    main()
