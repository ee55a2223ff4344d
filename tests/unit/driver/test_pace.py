"""Equally spaced steps: on time, a little late, long overdue."""

from rollgym.driver.pace import Pace


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_steps_on_time_are_equally_far_apart() -> None:
    clock = Clock()
    pace = Pace(2.0, clock)
    for _ in range(3):
        assert pace.left_s() == 2.0
        clock.now += 2.0


def test_small_delays_do_not_add_up() -> None:
    clock = Clock()
    pace = Pace(2.0, clock)
    for late_s in (0.5, 1.5, 0.25):
        due_at = clock.now + pace.left_s()
        clock.now = due_at + late_s
        assert pace.left_s() == 2.0 - late_s
        clock.now = due_at + 2.0


def test_a_stall_is_not_caught_up_with() -> None:
    clock = Clock()
    pace = Pace(2.0, clock)
    clock.now += 50.0
    assert pace.left_s() == 0.0
    assert pace.left_s() == 2.0
