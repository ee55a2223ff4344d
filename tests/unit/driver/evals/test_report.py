"""The report's page: self-contained, escaped, a plot or a sentence for everything."""

import re
from pathlib import Path

import pytest

from rollgym.driver.evals.report import render_report, write_report
from rollgym.driver.evals.report_charts import histogram
from unit.driver.evals.artifacts import event, failure, masked, owed, result, write_run

EVIL = "<script>alert(1)</script>"


def test_the_page_asks_the_network_for_nothing(tmp_path: Path) -> None:
    run = write_run(tmp_path, [result(0), result(0, 1, 0.0)], inputs=[owed(0), owed(0, 1)])
    page, _ = render_report(run)
    assert "<script" not in page
    assert not re.findall(r"(?:src|href|xlink:href)=[\"'](?!data:|#)[^\"']*", page)
    assert "@import" not in page
    assert "url(" not in page


def test_what_rows_say_is_text_on_the_page(tmp_path: Path) -> None:
    tags = {EVIL: EVIL}
    rows = [result(0, tags=tags, agent_ref={"name": EVIL}, ng_perf={"total_latency_ms": 1.0}), masked(1, kind=EVIL)]
    run = write_run(
        tmp_path, rows, inputs=[owed(0, env=EVIL, tags=tags), owed(1)], failures=[failure(1, failure_class=EVIL)]
    )
    page, _ = render_report(run)
    assert "alert(1)" in page
    assert "<script" not in page


def test_what_has_no_data_is_a_sentence(tmp_path: Path) -> None:
    page, plots = render_report(write_run(tmp_path, inputs=[]))
    assert plots == []
    for said in ("no rollout was scored", "no rollout that ended", "no attempt failed", "no samples", "reported any"):
        assert said in page


def test_secrets_of_the_settings_are_not_shown(tmp_path: Path) -> None:
    run = write_run(tmp_path, [result(0)])
    run.manifest.write_text('{"run_id": "r", "settings": {"policy": {"api_key": "S3NT1NEL"}, "limit": 5}}')
    page, _ = render_report(run)
    assert "S3NT1NEL" not in page
    assert "limit" in page


@pytest.mark.parametrize("manifest", ["", "[]", "{", '{"settings": 3, "started_at": "x"}'])
def test_a_manifest_that_is_none_is_passed_over(tmp_path: Path, manifest: str) -> None:
    run = write_run(tmp_path, [result(0)])
    run.manifest.write_text(manifest)
    assert "run report" in render_report(run)[0]


def test_the_same_run_gives_the_same_plots(tmp_path: Path) -> None:
    journal = [event("started", 0.0), event("dispatched", 1.0, (0, 0)), event("succeeded", 9.0, (0, 0), seconds=8.0)]
    run = write_run(tmp_path, [result(0)], journal=journal)
    first, second = (re.findall(r"<svg.*?</svg>", render_report(run)[0], re.DOTALL) for _ in range(2))
    assert first
    assert first == second


def test_a_written_report_says_where_and_how_large(tmp_path: Path) -> None:
    written = write_report(write_run(tmp_path, [result(0)]), tmp_path / "new" / "report.html")
    assert written["bytes"] == (tmp_path / "new" / "report.html").stat().st_size


@pytest.mark.parametrize(
    ("values", "bars"),
    [([0.0, 1.0, 1.0], 2), ([float(at) for at in range(100)], 24), ([-1e308, *range(20), 1e308], 24)],
    ids=["few-values", "many-values", "huge"],
)
def test_every_value_is_in_a_bar(values: list[float], bars: int) -> None:
    labels, counts = histogram(values)
    assert (len(labels), sum(counts)) == (bars, len(values))
