"""How the words of `gym` are read: no flag is taken for another, and an unknown one is met with a suggestion."""

import pytest

from rollgym.driver.cli import main


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("eval", "run", "--lim", "1"), "gym eval run: unknown argument '--lim' (did you mean --limit?)"),
        (("eval", "run", "--limi=1"), "gym eval run: unknown argument '--limi=1' (did you mean --limit?)"),
        (
            ("eval", "profile", "run.jsonl", "--to", "3"),
            "gym eval profile: unknown argument '--to' (did you mean --top?)",
        ),
        (("simulate", "capacity", "--task", "4"), "unknown argument '--task' (did you mean --tasks?)"),
        (("status", "--jso"), "gym status: unknown argument '--jso' (did you mean --json?)"),
        (("version", "more"), "gym version: unknown argument 'more'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_shortened_flag_is_an_unknown_one(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 2
    assert said in capsys.readouterr().err
