"""The page as text: who gets it, what it says, and that nothing in it is taken as markup."""

import re
from html.parser import HTMLParser
from typing import Any

import pytest

from rollgym.head.page_routes import prefers_html

VOID = {"meta", "link", "img", "br", "rect", "path", "circle"}


class Text(HTMLParser):
    """The visible words of a page; fails on markup that does not close what it opens."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self.open: list[str] = []
        self.inline: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inline += [name for name, _ in attrs if name == "style" or name.startswith("on")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data.split()


def text_of(html: str) -> str:
    parser = Text()
    parser.feed(html)
    parser.close()
    assert parser.open == []
    assert parser.inline == [], "inline styles and handlers are blocked by the content policy"
    return " ".join(parser.words)


@pytest.mark.parametrize(
    ("accept", "html"),
    [
        ("", False), ("*/*", False), ("application/json", False), ("text/html", True),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", True),
        ("application/json, text/html;q=0.5", False), ("text/html;q=0", False), ("TEXT/HTML; q=0.3", True),
        ("text/html;q=high", False), ("text/*", False),
    ],
)  # fmt: skip
def test_who_prefers_html(accept: str, html: bool) -> None:
    assert prefers_html(accept) is html


async def test_the_root_is_a_page_for_browsers_and_json_for_everyone_else(head: Any) -> None:
    page, other = await head.page("/"), await head.client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert other.json() == {"service": "head", "server_type": "head", "status": "up"}
    assert page.headers["vary"] == other.headers["vary"] == "Accept"
    assert (await head.client.get("/ui")).headers["content-type"].startswith("text/html")


async def test_an_empty_head_says_so(head: Any) -> None:
    text = text_of((await head.page("/")).text)
    assert "No run yet." in text
    assert "1 of 1 up" in text


async def test_the_overview_lists_servers_and_runs(head: Any) -> None:
    metadata = {"envs": ["gridsim", "wordle"], "sessions_open": 3, "max_sessions": 64, "sessions_waiting": 2}
    await head.register("resources-1", metadata=metadata)
    await head.register("resources-2", metadata={})
    await head.client.delete("/v1/servers/resources-2")
    await head.report("r1")
    text = text_of((await head.page("/")).text)
    assert "gridsim, wordle 3 of 64 sessions open 2 waiting" in text
    assert "2 of 2 up, 1 gone lately" in text
    assert "○ gone deregistered" in text
    assert "gridsim nightly" in text
    assert "94 of 200 · 47.0%" in text
    assert "0.625 over 88 scored" in text
    assert "5,400 1.5 s · 9.2 s 4 2 masked" in text


async def test_the_page_of_a_run_says_what_each_number_is_over(head: Any) -> None:
    await head.report("r1", summary={"warnings": ["3 rollouts had no turn"], "policy": {"model": "ckpt"}, "gc_s": 0.25})
    text = text_of((await head.page("/ui/runs/r1")).text)
    for words in (
        "gridsim nightly ▶ running",
        "3 rollouts had no turn",
        "Reward mean 0.625 over 88 scored rollouts",
        "Rollouts per hour 5,400",
        "Latency p50 1.5 s wall time of a rollout Latency p90 2.5 s nine of ten are faster",
        "Latency p99 9.2 s longest 10.0 s",
        "94 done of 200 owed · 47.0%",
        "succeeded 88 44.0%",
        "masked 2 1.0%",
        "drained 0 0%",
        "env_busy 3 yes model_error 1 yes",
        "policy · model ckpt",
        "gc s 0.25",
    ):
        assert words in text, words


async def test_absent_numbers_are_dashes_and_never_zeros(head: Any) -> None:
    await head.report(
        "r1",
        counts={},
        owed=None,
        reward_mean=None,
        rollouts_per_hour=None,
        latency_s=None,
        failures={},
        output="",
        host="",
    )
    text = text_of((await head.page("/ui/runs/r1")).text)
    assert "Reward mean – over – scored rollouts Rollouts per hour –" in text
    assert "Latency p50 – " in text
    assert "succeeded – – a row" in text
    assert not re.search(r"\b0\b", text.partition("About this run")[0].partition("so far")[2])
    overview = text_of((await head.page("/")).text)
    assert "– of – – – – · – –" in overview


async def test_a_lost_run_says_why(head: Any) -> None:
    await head.report("r1")
    head.clock.advance(300)
    text = text_of((await head.page("/ui/runs/r1")).text)
    assert "? lost" in text
    assert "Its driver said nothing for 5 min and reported no end" in text


async def test_an_unknown_run_is_a_page_too(head: Any) -> None:
    page = await head.page("/ui/runs/nobody")
    assert page.status_code == 404
    assert "no run 'nobody' is in the history" in text_of(page.text)


async def test_nothing_that_was_sent_is_taken_as_markup(head: Any) -> None:
    evil = "<script>alert(1)</script>\"'&"
    await head.register("resources-1", name=evil, host=evil, metadata={"envs": [evil]})
    await head.report(
        "r1", name=evil, output=evil, host=evil, failures={evil: 1}, summary={evil: evil, "warnings": [evil]}
    )
    for path in ("/", "/ui/runs/r1"):
        page = await head.page(path)
        assert "<script>alert" not in page.text
        assert "<script>alert(1)</script>" in text_of(page.text)


@pytest.mark.parametrize("path", ["/", "/ui", "/ui/runs/r1", "/ui/runs/nobody"])
async def test_pages_load_nothing_from_elsewhere(head: Any, path: str) -> None:
    await head.report("r1")
    page = await head.page(path)
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    sources = re.findall(r'(?:src|href)="([^"]*)"', page.text)
    assert sources
    for source in sources:
        assert source.startswith(("/", "#")), source
        if "/static/" in source:
            assert (await head.client.get(source)).headers["cache-control"].endswith("immutable")


async def test_a_static_file_that_is_none_is_404(head: Any) -> None:
    answer = await head.client.get("/ui/static/..%2Fapp.py")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


async def test_odd_metadata_breaks_no_page(head: Any) -> None:
    await head.register("a-1", metadata={"envs": "gridsim", "sessions_open": "many", "max_sessions": True})
    await head.register("b-1", metadata={"slots": 4.5, "slots_in_use": None})
    await head.report(
        "r1", summary={"warnings": "text", "deep": {"er": {"est": {"x": 1}}}, "list": [1, [2]], "no": None}
    )
    assert (await head.page("/")).status_code == 200
    assert (await head.page("/ui/runs/r1")).status_code == 200
