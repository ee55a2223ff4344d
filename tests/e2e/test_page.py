"""The head's page in a real browser: what it shows, that it keeps itself current, and that everyone can read it."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.async_api import Page, expect

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

Make = Callable[..., dict[str, Any]]
PHONE = {"width": 390, "height": 844, "is_mobile": True, "has_touch": True}
PAST_THE_EDGE = """[...document.querySelectorAll("main *")]
  .filter((node) => node.getBoundingClientRect().right > innerWidth + 1).length"""
MARK = "document.body.dataset.kept = 'yes'"
# WCAG's contrast of an element's text against the first opaque background behind it.
CONTRASTS = """() => {
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const colour = rgb(getComputedStyle(node).backgroundColor);
      if (colour.length < 4 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const low = [];
  for (const node of document.querySelectorAll("main *, header *, footer *")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.nodeValue.trim());
    if (!own || !node.getClientRects().length || node.closest("svg, .visually-hidden")) continue;
    const [a, b] = [light(rgb(getComputedStyle(node).color)), light(behind(node))].sort((p, q) => q - p);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) low.push(`${node.textContent.trim().slice(0, 30)}: ${ratio.toFixed(2)}`);
  }
  return low;
}"""


async def row(page: Page, text: str) -> str:
    """The words of the one table row that holds `text`."""
    words = await page.get_by_role("row").filter(has_text=text).inner_text()
    return " ".join(words.split())


async def test_the_overview_shows_servers_and_runs(busy_head: Any, watched: Any) -> None:
    seen = await watched()
    await seen.open("/")
    await expect(seen.page).to_have_title("2 running · Rollgym")
    assert "finished 94 of 200 · 47.0% 0.625 over 88 scored 5,400 1.5 s · 9.2 s 4 2 masked 1 min" in await row(
        seen.page, "wordle"
    )
    assert "resources-1 ● up resources server gridsim 3 of 64 sessions open" in await row(seen.page, "resources-1")
    await expect(seen.page.locator("#pulse")).to_have_attribute("data-state", "live")
    seen.assert_clean()


async def test_the_overview_follows_without_a_reload(busy_head: Any, watched: Any, tell: Any, report: Make) -> None:
    seen = await watched()
    await seen.open("/")
    await seen.page.evaluate(MARK)
    link = seen.page.get_by_role("link", name="gridsim nightly")
    await link.focus()
    await tell("/v1/runs/works", report(name="gridsim nightly", ttl_s=600, succeeded=120))
    await tell("/v1/runs/new", report(name="brand new"))
    await expect(seen.page.get_by_role("row").filter(has_text="gridsim nightly")).to_contain_text("126 of 200")
    await expect(seen.page.get_by_role("link", name="brand new")).to_be_visible()
    await expect(link).to_be_focused()
    assert await seen.page.evaluate("document.body.dataset.kept") == "yes"
    seen.assert_clean()


async def test_a_runs_page_follows_its_events_to_the_end(busy_head: Any, watched: Any, tell: Any, report: Make) -> None:
    seen = await watched()
    await seen.open("/")
    await seen.page.get_by_role("link", name="gridsim nightly").click()
    await expect(seen.page.get_by_role("heading", level=1)).to_have_text("gridsim nightly")
    await seen.page.evaluate(MARK)
    for succeeded in (130, 140):
        await tell("/v1/runs/works", report(name="gridsim nightly", ttl_s=600, succeeded=succeeded))
        await expect(seen.page.get_by_role("row").filter(has_text="succeeded")).to_contain_text(str(succeeded))
    await tell("/v1/runs/works", report(name="gridsim nightly", state="failed", reward_mean=None))
    await expect(seen.page.locator(".title .badge")).to_have_text("✗ failed")
    await expect(seen.page.locator(".tiles dd").first).to_have_text("–")
    assert await seen.page.evaluate("document.body.dataset.kept") == "yes"
    assert any(url.endswith("/events") for url in seen.asked)
    seen.assert_clean()


async def test_a_head_that_is_gone_is_said_and_its_return_seen(busy_head: Any, watched: Any, head: Any) -> None:
    seen = await watched()
    await seen.open("/")
    await expect(seen.page.locator("#pulse")).to_have_attribute("data-state", "live")
    await seen.page.context.set_offline(True)
    await expect(seen.page.locator("#pulse")).to_contain_text("No answer from the head")
    await expect(seen.page.get_by_role("link", name="wordle")).to_be_visible()
    await seen.page.context.set_offline(False)
    await expect(seen.page.locator("#pulse")).to_have_attribute("data-state", "live")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", ["/", "/ui/runs/works", "/ui/runs/fresh", "/ui/runs/nobody"])
async def test_everything_is_readable(busy_head: Any, watched: Any, path: str, scheme: str) -> None:
    seen = await watched(color_scheme=scheme)
    await seen.open(path)
    assert await seen.page.evaluate(CONTRASTS) == []
    ground = await seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
    red = int(ground.removeprefix("rgb(").split(",")[0])
    assert (red < 60) is (scheme == "dark")


@pytest.mark.parametrize("path", ["/", "/ui/runs/works"])
async def test_a_phone_shows_all_of_it_without_scrolling_sideways(busy_head: Any, watched: Any, path: str) -> None:
    seen = await watched(**PHONE)
    await seen.open(path)
    assert await seen.page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    assert await seen.page.evaluate(PAST_THE_EDGE) == 0
    if path == "/":
        await expect(seen.page.get_by_role("row").filter(has_text="wordle")).to_contain_text("over 88 scored")
        # Cards or not, it is a table to whoever listens to it.
        await expect(seen.page.get_by_role("table")).to_have_count(2)
        await expect(seen.page.get_by_role("rowheader", name="wordle")).to_be_visible()
    seen.assert_clean()


async def test_it_reads_without_javascript(busy_head: Any, watched: Any) -> None:
    seen = await watched(java_script_enabled=False)
    await seen.open("/")
    assert "94 of 200" in await row(seen.page, "wordle")
    await seen.page.get_by_role("link", name="wordle").click()
    await expect(seen.page.get_by_role("heading", level=1)).to_have_text("wordle")
    assert await seen.page.locator("noscript").count() == 1
    seen.assert_clean()


async def test_the_keyboard_reaches_everything(busy_head: Any, watched: Any) -> None:
    seen = await watched()
    await seen.open("/")
    reached = []
    for _ in range(6):
        await seen.page.keyboard.press("Tab")
        reached.append(await seen.page.evaluate("document.activeElement.textContent.trim()"))
    assert reached[0] == "Skip to content"
    assert reached[1].startswith("Rollgym")
    assert {"gridsim nightly", "wordle", "nothing measured"} <= set(reached)


async def test_what_was_sent_is_never_run(head: Any, tell: Any, watched: Any, report: Make) -> None:
    evil = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
    await tell("/v1/runs/evil", report(name=evil, ttl_s=600, summary={evil: evil, "warnings": [evil]}))
    seen = await watched()
    for path in ("/", "/ui/runs/evil"):
        await seen.open(path)
        await expect(seen.page.locator("#pulse")).to_have_attribute("data-state", "live")
        assert "owned" not in (await seen.page.title()).split("'")[0]
        await expect(seen.page.locator("main img, main script")).to_have_count(0)
    seen.assert_clean()
