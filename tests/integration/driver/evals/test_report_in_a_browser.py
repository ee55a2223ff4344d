"""The report in a real browser: it opens clean, every plot shows its data, in light, dark and print."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

import needs
from integration.driver.evals.busy_run import write_busy_run
from rollgym.driver.evals.report import write_report

pytestmark = pytest.mark.browser

ROLLOUTS = 10_000
MOST_BYTES = 2 * 1024 * 1024
PLOTS = ["rewards", "pass-at-k", "latency", "rate", "in-flight", "failures", "health", "tokens", "slowest"]
SHAPES = ".series path.line, .series rect.rect, .series .bar rect, .series .dot"


@dataclass
class Opened:
    """A page with what it asked for and complained of."""

    page: Page
    problems: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=needs.browser_path(), args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("busy")
    written = write_report(write_busy_run(folder, ROLLOUTS), folder / "report.html")
    assert written["plots"] == PLOTS
    return folder / "report.html"


@pytest.fixture(scope="module")
def opened(browser: Browser, report: Path) -> Iterator[Opened]:
    context = browser.new_context(viewport={"width": 1200, "height": 900}, offline=True)
    found = Opened(context.new_page())
    found.page.on("console", lambda message: found.problems.append(f"{message.type}: {message.text}"))
    found.page.on("pageerror", lambda error: found.problems.append(str(error)))
    found.page.on("request", lambda request: found.asked.append(request.url))
    found.page.goto(report.as_uri())
    yield found
    context.close()


def test_it_opens_without_a_word_and_asks_for_itself_alone(opened: Opened, report: Path) -> None:
    assert opened.problems == []
    assert opened.asked == [report.as_uri()]


def test_ten_thousand_rollouts_stay_under_two_megabytes(report: Path) -> None:
    assert report.stat().st_size < MOST_BYTES


@pytest.mark.parametrize("plot", PLOTS)
def test_every_plot_shows_its_data(opened: Opened, plot: str) -> None:
    figure = opened.page.locator(f"figure#{plot}")
    assert figure.locator(SHAPES).count() > 0
    assert figure.locator("text.no_data").count() == 0
    assert "NaN" not in figure.inner_html()
    shown = figure.locator("svg").bounding_box()
    assert shown is not None
    assert shown["width"] > 300
    assert shown["height"] > 100
    assert figure.locator("figcaption").inner_text().strip()


def test_nothing_drawn_sticks_out_of_its_plot(opened: Opened) -> None:
    sticking_out = opened.page.evaluate(
        """() => [...document.querySelectorAll('figure svg')].flatMap(svg => {
            const frame = svg.getBoundingClientRect();
            return [...svg.querySelectorAll('text')].filter(text => {
                const box = text.getBoundingClientRect();
                const below = box.bottom - frame.bottom;
                const beside = Math.max(box.right - frame.right, frame.left - box.left);
                return box.width && Math.max(below, beside) > 1;
            }).map(text => `${svg.id}: ${text.textContent}`);
        })"""
    )
    assert sticking_out == []


@pytest.mark.parametrize(("scheme", "media"), [("light", "screen"), ("dark", "screen"), ("dark", "print")])
def test_text_can_be_read_in_light_dark_and_print(opened: Opened, scheme: str, media: str) -> None:
    opened.page.emulate_media(color_scheme=scheme, media=media)  # type: ignore[arg-type]  # literals, parametrized
    contrasts = opened.page.evaluate(
        """() => {
            const light = color => {
                const parts = color.match(/[\\d.]+/g).slice(0, 3).map(part => {
                    const share = part / 255;
                    return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
                });
                return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
            };
            const paper = light(getComputedStyle(document.body).backgroundColor);
            const contrast = ink => (Math.max(light(ink), paper) + 0.05) / (Math.min(light(ink), paper) + 0.05);
            return {
                text: contrast(getComputedStyle(document.body).color),
                quiet: contrast(getComputedStyle(document.querySelector('figcaption')).color),
                axis: contrast(getComputedStyle(document.querySelector('figure .axis text')).fill),
                series: contrast(getComputedStyle(document.querySelector('#latency .series path.line')).stroke),
                paper: paper,
            };
        }"""
    )
    assert contrasts["text"] >= 7
    assert contrasts["axis"] >= 7
    assert contrasts["quiet"] >= 4.5
    assert contrasts["series"] >= 3
    assert (contrasts["paper"] > 0.9) == ((scheme, media) != ("dark", "screen"))


def test_headings_stand_in_order_and_every_figure_is_named(opened: Opened) -> None:
    assert opened.page.locator("h1").count() == 1
    names = opened.page.eval_on_selector_all(
        "figure", "figures => figures.map(each => each.getAttribute('aria-label'))"
    )
    assert len(set(names)) == len(PLOTS)
    ids = opened.page.eval_on_selector_all("[id]", "found => found.map(each => each.id)")
    assert len(ids) == len(set(ids))
