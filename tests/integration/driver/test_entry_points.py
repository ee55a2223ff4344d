"""The two entry points tune this process's garbage collector before the first dispatch; the library touches nothing."""

import gc
import logging
import signal
import sys
from collections.abc import Callable

import pytest

from integration.driver.runs import UNTUNED, Ended, RunFolder, agent_row, gym
from integration.driver.servers import Stack
from integration.driver.stub_agent import Answer, Arrival, stub_agent
from integration.driver.watching_policy import SEEN, Collector, collector
from rollgym.common.errors import ConfigurationError
from rollgym.driver.helper import IncompleteRun, RolloutCollectionHelper

Observed = tuple[Ended, list[Collector]]


def no_serve(run: RunFolder, _: str, *words: str) -> Observed:
    """Through `--no-serve`; the collector's state at each row's arrival, since the agent lives in this process."""
    states: list[Collector] = []

    def behave(_: Arrival) -> Answer:
        states.append(collector())
        return Answer()

    with stub_agent(behave) as stub:
        return gym(*run.tasks(3).words(stub.url, *words)), states


@pytest.fixture
def bundle(stack: Stack) -> str:
    return stack.bundle.url


def embedded(run: RunFolder, bundle: str, *words: str) -> Observed:
    """Through the serving entry point; the collector's state when each rollout's policy starts."""
    SEEN.clear()
    run.tasks([{"responses_create_params": {"input": "x"}, "env": "echo"}] * 3)
    files = ("--input", str(run.input), "--output", str(run.paths.results))
    policy = ("--policy", "integration.driver.watching_policy:Watching")
    serve = ("++serve.env_bundle=false", f"++serve.envs={{echo: '{bundle}/echo'}}", "++metrics_port=0")
    return gym("eval", "run", *files, *policy, *serve, *words), list(SEEN)


both = pytest.mark.parametrize("entry", [no_serve, embedded], ids=["no-serve", "embedded"])
Entry = Callable[..., Observed]


@both
def test_defaults_are_applied_before_the_first_dispatch(run: RunFolder, bundle: str, entry: Entry) -> None:
    assert collector()[0] != (50_000, 50, 100)
    ended, states = entry(run, bundle)
    assert ended.code in (0, 3), ended
    assert len(states) == 3
    assert {thresholds for thresholds, _ in states} == {(50_000, 50, 100)}
    assert min(frozen for _, frozen in states) > 10_000


@both
def test_configured_values_are_applied(run: RunFolder, bundle: str, entry: Entry) -> None:
    frozen_before = gc.get_freeze_count()
    ended, states = entry(run, bundle, "++driver_gc_freeze=false", "++driver_gc_thresholds=[40000,7]")
    assert ended.code in (0, 3), ended
    assert {thresholds[:2] for thresholds, _ in states} == {(40_000, 7)}
    assert {frozen for _, frozen in states} == {frozen_before}


@both
def test_turned_off_it_leaves_the_collector_exactly_as_it_was(run: RunFolder, bundle: str, entry: Entry) -> None:
    before = collector()
    ended, states = entry(run, bundle, *UNTUNED)
    assert ended.code in (0, 3), ended
    assert states == [before] * 3
    assert collector() == before


def test_a_resumed_run_keeps_what_the_servers_of_its_first_start_said(run: RunFolder, bundle: str) -> None:
    for more in ((), ("--resume",)):
        ended, _ = embedded(run, bundle, *UNTUNED, *more)
        assert ended.code in (0, 3), ended
        assert f"{run.paths.logs}/" in ended.out
    assert (run.paths.logs / "resources.log").read_text().count("listening on") == 2


@pytest.mark.parametrize("value", ["[0,50,100]", "[]", "[1,2,3,4]", "often", "[-5]"])
def test_wrong_values_are_refused_and_nothing_starts(run: RunFolder, value: str) -> None:
    before = collector()
    ended, states = no_serve(run, "", f"++driver_gc_thresholds={value}")
    assert (ended.code, states) == (2, [])
    assert "driver_gc_thresholds" in ended.err
    assert collector() == before


async def test_a_library_caller_keeps_its_collector_signals_and_logging(run: RunFolder) -> None:
    def process() -> tuple[object, ...]:
        handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        root = logging.getLogger()
        return collector(), handlers, list(root.handlers), root.level, sys.stdout, sys.stderr, list(gc.callbacks)

    before = process()
    during: list[Collector] = []

    def behave(arrival: Arrival) -> Answer:
        during.append(collector())
        return Answer(reward=float(arrival.task))

    with stub_agent(behave) as stub:
        results = await RolloutCollectionHelper().run_examples([agent_row(n) for n in range(3)], head_url=stub.url)
    assert [result["reward"] for result in results] == [0.0, 1.0, 2.0]
    assert during == [before[0]] * 3
    assert process() == before


async def test_results_come_in_input_order_with_repeats_together() -> None:
    def behave(arrival: Arrival) -> Answer:
        return Answer(reward=float(arrival.task), after_s=0.05 * (3 - arrival.task))

    with stub_agent(behave) as stub:
        rows = [agent_row(n) for n in range(3)]
        results = await RolloutCollectionHelper().run_examples(rows, head_url=stub.url, num_repeats=2)
    assert [(row["_ng_task_index"], row["_ng_rollout_index"]) for row in results] == [
        (task, rollout) for task in range(3) for rollout in range(2)
    ]


async def test_fewer_results_than_asked_for_are_an_error_that_says_how_many_and_why() -> None:
    said = r"1 of 3 rollouts .* 2 failed .*agent_request_failed 2"
    with (
        stub_agent(lambda arrival: Answer(status=400 if arrival.task else 200)) as stub,
        pytest.raises(IncompleteRun, match=said) as short,
    ):
        await RolloutCollectionHelper().run_examples([agent_row(n) for n in range(3)], head_url=stub.url)
    assert short.value.data["failed"] == 2
    assert short.value.report is not None


async def test_no_examples_give_no_results() -> None:
    with stub_agent() as stub:
        assert await RolloutCollectionHelper().run_examples([], head_url=stub.url) == []
    assert not stub.arrivals


async def test_a_wrong_setting_of_a_library_caller_is_an_error_it_can_catch() -> None:
    with pytest.raises(ConfigurationError, match="num_repeats"):
        await RolloutCollectionHelper().run_examples([agent_row()], num_repeats=0)
