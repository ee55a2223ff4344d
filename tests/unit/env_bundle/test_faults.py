"""Faults: how they are written, in which phases they strike, how often, and that a seed fixes when."""

import pytest
from pydantic import ValidationError

from rollgym.env_bundle.faults import ALLOWED_PHASES, Fault, FaultKind, FaultSchedule, Phase, parse_fault


def schedule(*faults: str, seed: int = 0) -> FaultSchedule:
    made = FaultSchedule(seed=seed)
    made.replace(parse_fault(text) for text in faults)
    return made


def strikes(faults: FaultSchedule, times: int, phase: Phase = Phase.STEP, env: str = "echo") -> list[bool]:
    return [faults.draw(phase, env) is not None for _ in range(times)]


def test_a_fault_with_every_setting() -> None:
    text = "slow-step:probability=0.5:duration=3:count=2:after=1:env=echo:phase=reset+step:seed=9"
    assert parse_fault(text) == Fault(
        kind=FaultKind.SLOW_STEP,
        probability=0.5,
        duration_s=3,
        count=2,
        after=1,
        env="echo",
        phases=(Phase.RESET, Phase.STEP),
        seed=9,
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("slow-stp", "did you mean slow-step", id="kind"),
        pytest.param("slow-step:durration=1", "did you mean duration", id="key"),
        pytest.param("slow-step:count", "no setting 'count'", id="no-value"),
        pytest.param("slow-step:probability=2", "probability", id="value"),
        pytest.param("slow-step:phase=never", "phases", id="phase"),
        pytest.param("http-503:phase=step", "http-503 strikes in handshake, not in step", id="phase-of-the-kind"),
    ],
)
def test_each_mistake_is_one_line(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        parse_fault(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", FaultKind)
def test_every_kind_strikes_by_default_at_the_handshake_or_at_a_step(kind: FaultKind) -> None:
    assert Fault(kind=kind).strikes_in in ({Phase.HANDSHAKE}, {Phase.STEP})
    assert Fault(kind=kind).strikes_in <= ALLOWED_PHASES[kind]


@pytest.mark.parametrize("phase", Phase)
def test_a_fault_strikes_in_its_phases_only(phase: Phase) -> None:
    faults = schedule("tcp-reset:phase=reset+idle")
    assert strikes(faults, 1, phase) == [phase in (Phase.RESET, Phase.IDLE)]


def test_count_bounds_how_often() -> None:
    assert strikes(schedule("slow-step:count=2"), 4) == [True, True, False, False]


def test_after_lets_the_first_pass() -> None:
    assert strikes(schedule("slow-step:after=2:count=1"), 4) == [False, False, True, False]


def test_env_restricts_to_one_environment() -> None:
    faults = schedule("slow-step:env=wordle")
    assert faults.draw(Phase.STEP, "echo") is None
    assert faults.draw(Phase.STEP, "wordle") is not None


def test_the_first_that_strikes_is_the_only_one() -> None:
    faults = schedule("error-frame:count=1", "slow-step")
    kinds = [fault.kind if (fault := faults.draw(Phase.STEP, "echo")) else None for _ in range(2)]
    assert kinds == [FaultKind.ERROR_FRAME, FaultKind.SLOW_STEP]


@pytest.mark.parametrize(("probability", "expected"), [("0", 0), ("1", 2000)])
def test_probability_at_its_ends(probability: str, expected: int) -> None:
    assert sum(strikes(schedule(f"slow-step:probability={probability}"), 2000)) == expected


def test_probability_is_kept_in_the_long_run() -> None:
    assert 550 < sum(strikes(schedule("slow-step:probability=0.3"), 2000)) < 650


def test_a_seed_fixes_when_it_strikes() -> None:
    def pattern(text: str, seed: int) -> list[bool]:
        return strikes(schedule(text, seed=seed), 60)

    text = "slow-step:probability=0.5"
    assert pattern(text, 1) == pattern(text, 1) != pattern(text, 2)
    assert pattern(f"{text}:seed=4", 1) == pattern(f"{text}:seed=4", 2)


def test_other_faults_do_not_shift_a_faults_chances() -> None:
    alone = schedule("slow-step:probability=0.5:seed=4")
    beside = schedule("slow-step:probability=0.5:seed=4", "error-frame:probability=0.5:phase=reset")
    first = strikes(alone, 40)
    second = []
    for _ in range(40):
        second += strikes(beside, 1)
        beside.draw(Phase.RESET, "echo")
    assert first == second


def test_replacing_starts_counts_anew_and_keeps_the_totals() -> None:
    faults = schedule("slow-step:count=1")
    strikes(faults, 3)
    faults.replace([Fault(kind=FaultKind.SLOW_STEP, count=1)])
    assert faults.snapshot()["faults"][0]["injected"] == 0
    strikes(faults, 3)
    faults.replace([])
    assert strikes(faults, 3) == [False] * 3
    assert faults.snapshot() == {"faults": [], "injected": {"slow-step": 2}}


def test_the_snapshot_shows_what_is_in_force_with_defaults_filled_in() -> None:
    faults = schedule("late-handshake")
    faults.draw(Phase.HANDSHAKE, "echo")
    shown = faults.snapshot()["faults"][0]
    assert (shown["id"], shown["kind"], shown["phases"]) == ("fault-1", "late-handshake", ["handshake"])
    assert (shown["duration_s"], shown["seen"], shown["injected"]) == (5.0, 1, 1)


def test_unknown_fields_are_refused() -> None:
    with pytest.raises(ValidationError):
        Fault.model_validate({"kind": "slow-step", "chance": 1})
