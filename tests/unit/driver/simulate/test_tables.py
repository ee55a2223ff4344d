"""Tables are Markdown: every row as wide as its headings, a row a run, medians below."""

from rollgym.driver.simulate.tables import built_in_table, capacity_table, ceiling_table
from unit.driver.simulate.seen_runs import collected, figures


def _rows(text: str) -> list[list[str]]:
    lines = text.splitlines()
    assert len({len(line) for line in lines}) == 1
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_each_run_has_a_row_and_each_variant_its_median() -> None:
    runs = [
        figures(name, round=number, generations=collected(9, 1.5)) for name in ("default", "off") for number in (1, 2)
    ]
    rows = _rows(capacity_table(runs))
    assert [row[0] for row in rows[2:]] == [
        *("default 1", "default 2", "off 1", "off 2"),
        *("**default, median**", "**off, median**"),
    ]
    assert "9 / 1.5 / 1.0" in rows[2]
    assert len({len(row) for row in rows}) == 1


def test_one_round_needs_no_medians() -> None:
    assert len(_rows(capacity_table([figures("default"), figures("off")]))) == 4


def test_the_built_in_agents_figures_are_per_model_call() -> None:
    run = figures("built-in agent", model_calls=1280, elapsed_s=2.0, rollouts=128, cpu_ms_per_rollout=15.0)
    headings, _, row = _rows(built_in_table(run))
    told = dict(zip(headings, row, strict=True))
    assert (told["model calls/s"], told["driver CPU ms/call"]) == ("640", "1.50")


def test_the_ceilings_table_has_a_column_for_each_server() -> None:
    run = figures(servers_busy={"agents": 0.5}, loop_busy=0.9)
    headings, _, row = _rows(ceiling_table([run]))
    told = dict(zip(headings, row, strict=True))
    assert (told["agents"], told["driver's loop"]) == ("50%", "90%")
