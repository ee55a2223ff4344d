"""A simulated agent server, and the head that tells of it: answers `/run`, after a while, as production does.

    python -m rollgym.driver.simulate.agent_fleet [--latency uniform:0.2:1.0] [--rate PER_S] [--fail-rate 0.05] …

Latency and failure of an attempt depend on the seed and on which attempt it is, never on the order of arrival: every
run meets the same agents. In a closed loop a rollout begins when it arrives; with `--rate`, an open loop, it begins
when a seeded schedule says so, however fast the driver is.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from argparse import ArgumentParser, Namespace
from array import array
from collections.abc import Sequence
from typing import Any

from rollgym.driver.simulate.latency import Latency, Schedule, rng_of
from rollgym.driver.simulate.raw_http import Connection, Request, serve
from rollgym.driver.simulate.results import ResultTemplate

AGENT_NAME = "simulated_agent"
_NAMES = (b'"_ng_task_index"', b'"_ng_rollout_index"', b'"_ng_attempt_index"')
_NUMBER = re.compile(rb"\s*:\s*(\d+)")
_NO_METRICS: dict[str, Any] = {"agent_metrics": {}, "key_metrics": {}, "group_level_metrics": []}


class AgentFleet:
    """One process of it. `also` are the URLs of further ones, that the head of this one tells of, too."""

    def __init__(self, options: Namespace, url: str) -> None:
        self._latency: Latency = options.latency
        self._seed: int = options.seed
        self._fail_rate: float = options.fail_rate
        self._urls = [url, *options.also]
        self._schedule = Schedule(options.rate, rng_of(options.seed)) if options.rate else None
        self._template = ResultTemplate.make(options.messages, options.characters, options.calls)
        self._loop = asyncio.get_running_loop()
        self._began = 0.0
        self.first_run_at: float | None = None
        self.in_flight = self.peak_in_flight = self.abandoned = 0
        self.late = array("d")
        self.answered_at = array("d")
        self.failed: list[tuple[int, int, int]] = []

    def handle(self, connection: Connection, request: Request) -> None:
        if request.path == "/run":
            self._run(connection, request.body)
        elif request.method in ("PUT", "DELETE"):
            connection.reply_json(None, status=204)
        elif request.path == "/aggregate_metrics":
            connection.reply_json(_NO_METRICS)
        elif request.path in ("/", "/stat"):
            connection.reply_json(self.stat())
        elif request.path == "/v1/servers":
            connection.reply_json({"servers": self._instances()})
        elif request.path == "/server_instances":
            connection.reply_json(self._instances())
        elif request.path == "/global_config_dict_yaml":
            connection.reply_json(json.dumps(self._global_config()))
        else:
            connection.reply_json({"message": f"no route {request.path}"}, status=404)

    def _run(self, connection: Connection, row: bytes) -> None:
        now = self._loop.time()
        if self.first_run_at is None:
            self.first_run_at, self._began = time.time(), now
        self.in_flight += 1
        self.peak_in_flight = max(self.peak_in_flight, self.in_flight)
        task, rollout, attempt = identity(row)
        rng = rng_of(self._seed, task, rollout, attempt)
        latency_s, fails = self._latency.draw(rng), rng.random() < self._fail_rate
        begins = now
        if self._schedule is not None:
            begins = self._began + self._schedule.next_offset_s()
            self.late.append(max(0.0, now - begins))
        self._loop.call_at(max(now, begins + latency_s), self._answer, connection, (task, rollout, attempt), fails)

    def _answer(self, connection: Connection, key: tuple[int, int, int], fails: bool) -> None:
        self.in_flight -= 1
        if not connection.is_open:
            self.abandoned += 1
            return
        if fails:
            self.failed.append(key)
            connection.reply([b'{"message":"simulated failure"}'], status=500)
        else:
            connection.reply(self._template.filled(key[0], key[1]))
        self.answered_at.append(time.time())

    def stat(self) -> dict[str, Any]:
        """What this process was asked and what it answered; times are the machine's clock."""
        return {
            "first_run_at": self.first_run_at,
            "answered_at": list(self.answered_at),
            "in_flight": self.in_flight,
            "peak_in_flight": self.peak_in_flight,
            "abandoned": self.abandoned,
            "failed_attempts": self.failed,
            "late_s": list(self.late),
            "result_bytes": self._template.size_bytes,
        }

    def _instances(self) -> list[dict[str, Any]]:
        return [
            {
                "instance_id": f"{AGENT_NAME}-{number}",
                "name": AGENT_NAME,
                "server_type": "responses_api_agents",
                **_address(url),
                "url": url,
                "status": "success",
                "start_time": self.first_run_at,
            }
            for number, url in enumerate(self._urls)
        ]

    def _global_config(self) -> dict[str, Any]:
        here = _address(self._urls[0])
        return {
            "head_server": here,
            AGENT_NAME: {"responses_api_agents": {"simulated": {**here, "entrypoint": "app.py"}}},
        }


def identity(row: bytes) -> tuple[int, int, int]:
    """Task, rollout and attempt index of a row. Found by search: decoding 160 KB for three numbers would be load."""
    found = []
    for name in _NAMES:
        at = row.rfind(name)
        number = _NUMBER.match(row, at + len(name)) if at >= 0 else None
        found.append(int(number[1]) if number else 0)
    return found[0], found[1], found[2]


def _address(url: str) -> dict[str, Any]:
    host, port = url.removeprefix("http://").rsplit(":", 1)
    return {"host": host, "port": int(port)}


def parser() -> ArgumentParser:
    flags = ArgumentParser(prog="agent_fleet", description=__doc__)
    flags.add_argument("--port", type=int, default=0)
    flags.add_argument("--latency", type=Latency.parse, default=Latency.parse("uniform:0.2:1.0"))
    flags.add_argument("--rate", type=float, default=0.0, help="open loop: rollouts that begin each second")
    flags.add_argument("--fail-rate", type=float, default=0.0, help="share of attempts that answer 500")
    flags.add_argument("--seed", type=int, default=0)
    flags.add_argument("--messages", type=int, default=80, help="messages of a result's history")
    flags.add_argument("--characters", type=int, default=2000, help="characters of each message")
    flags.add_argument("--calls", type=int, default=2, help="captured model calls, each with the whole history")
    flags.add_argument("--also", action="append", default=[], metavar="URL", help="a further process; repeatable")
    flags.add_argument("--exit-with-parent", action="store_true", help="stop when standard input ends")
    return flags


def main(argv: Sequence[str] | None = None) -> int:
    options = parser().parse_args(argv)
    return serve(
        "agents",
        options.port,
        lambda url: AgentFleet(options, url).handle,
        exit_with_parent=options.exit_with_parent,
    )


if __name__ == "__main__":
    sys.exit(main())
