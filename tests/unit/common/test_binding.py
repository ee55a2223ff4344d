"""Open files: how many clients they allow, and how many may wait to be accepted."""

import resource

import pytest

from rollgym.common import binding


@pytest.mark.parametrize(
    ("open_files", "each", "clients"),
    [(256, 2, 60), (256, 1, 120), (1024, 2, 300), (4096, 2, 1260), (1 << 20, 2, 327_660), (64, 2, 1)],
)
def test_clients_that_so_many_open_files_allow(open_files: int, each: int, clients: int) -> None:
    assert binding.served_at_once(open_files, each) == clients


def test_the_backlog_is_bounded_by_the_hard_limit_of_open_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert binding.open_files_possible() >= soft
    assert 16 <= binding.backlog() <= min(binding.BACKLOG, max(16, hard))
