"""Which policy plays: settings that fit together, and one's own class found or its absence explained."""

import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from rollgym.common import jsonx
from rollgym.common.errors import ConfigurationError
from rollgym.driver.policies import PolicySettings, SeedAnswer, TurnRequest, create_policy
from rollgym.driver.task_view import TaskView

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "policies"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        pytest.param({"kind": "scriptd"}, "did you mean 'scripted'", id="typo"),
        pytest.param({"kind": "openai-responces"}, "did you mean 'openai-responses'", id="typo-openai"),
        pytest.param({"kind": "my.module.Class"}, "package.module:Class", id="dot-for-colon"),
        pytest.param({"kind": "openai-chat"}, "needs base_url", id="no-base-url"),
        pytest.param({"kind": "openai-chat", "base_url": "localhost:8000"}, "http://", id="no-scheme"),
        pytest.param({"api_key": "two words"}, "printable ASCII", id="key-with-space"),
        pytest.param({"options": {"a": 1}}, "options are for one's own", id="options-of-a-built-in"),
        pytest.param({"backoff_s": 9, "max_backoff_s": 3}, "at least backoff_s", id="backoff-above-cap"),
        pytest.param({"skill": "genius"}, "novice", id="unknown-skill"),
        pytest.param({"temprature": 1}, "Extra inputs", id="unknown-key"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        PolicySettings(**settings)


@pytest.mark.parametrize(("key", "kept"), [("sk-a\n", "sk-a"), ("", None), ("  ", None)])
def test_a_key_is_stripped_and_an_empty_one_is_none(key: str, kept: str | None) -> None:
    settings = PolicySettings.model_validate({"api_key": key})
    assert (settings.api_key.get_secret_value() if settings.api_key else None) == kept


def test_a_secret_shows_neither_in_the_settings_nor_in_their_errors() -> None:
    assert "S3NT1NEL" not in repr(PolicySettings.model_validate({"api_key": "S3NT1NEL"}))
    with pytest.raises(ValidationError) as caught:
        PolicySettings.model_validate({"api_key": "S3NT1NEL with spaces"})
    assert "S3NT1NEL" not in str(caught.value)


@pytest.mark.parametrize("kind", ["scripted", "openai-responses", "openai-chat"])
def test_built_in_policies_are_built_without_opening_anything(kind: str) -> None:
    assert create_policy(PolicySettings(kind=kind, base_url="http://127.0.0.1:1/v1")).name == kind


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_policies.py").write_text(
        "from rollgym.driver.policies import OfflinePolicy\n"
        "class Careful(OfflinePolicy):\n"
        "    name = 'careful'\n"
        "    def __init__(self, caution=1): self.caution = caution\n"
        "    def start(self, task, seed): ...\n"
        "class Unfinished(OfflinePolicy): ...\n"
    )
    (tmp_path / "broken_policies.py").write_text("raise RuntimeError('boom')\n")
    (tmp_path / "needy_policies.py").write_text("import no_such_dependency\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("own_policies", "broken_policies", "needy_policies"):
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.mark.usefixtures("own_module")
@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        pytest.param("own_policy:Careful", {}, "no module named 'own_policy'; did you mean own_policies", id="module"),
        pytest.param("own_policies:Carefull", {}, "no class 'Carefull'; did you mean 'Careful'", id="class"),
        pytest.param("own_policies:Unfinished", {}, "is not a Policy: it has no name, start", id="no-policy"),
        pytest.param("own_policies:__name__", {}, "is no class", id="no-class"),
        pytest.param("own_policies:Careful", {"couration": 2}, "cannot be built with options", id="options"),
        pytest.param("broken_policies:Any", {}, "fails to import: RuntimeError: boom", id="import-raises"),
        pytest.param("needy_policies:Any", {}, "fails to import: No module named 'no_such_dep", id="dependency"),
    ],
)
def test_an_own_policy_that_cannot_be_had_says_what_failed(kind: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        create_policy(PolicySettings(kind=kind, options=options))


@pytest.mark.usefixtures("own_module")
def test_an_own_policy_is_built_with_its_options() -> None:
    policy = create_policy(PolicySettings(kind="own_policies:Careful", options={"caution": 3}))
    assert (policy.name, getattr(policy, "caution", None)) == ("careful", 3)


async def test_the_example_policy_plays_its_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    row = TaskView.decode(b'{"responses_create_params": {"input": "go"}}')
    tool = b'{"type": "function", "name": "look"}'
    kinds = []
    async with create_policy(PolicySettings(kind="my_policy:FirstTool", options={"calls": 2})) as policy:
        session = policy.start(row, SeedAnswer(tools=[tool]))
        for turn_no in (1, 2, 3):
            turn = await session.respond(TurnRequest([], [tool], turn_no))
            kinds.append(jsonx.loads(turn.output[0])["type"])
    assert kinds == ["function_call", "function_call", "message"]


@pytest.mark.parametrize(
    ("api_key", "endpoint"),
    [(None, "http://user:pw@h:1/v1"), ("key", "http://h:1/v1")],
    ids=["the URL's own credentials", "the key wins"],
)
def test_one_credential_is_sent(api_key: str | None, endpoint: str) -> None:
    settings = PolicySettings.model_validate(
        {"kind": "openai-chat", "base_url": "http://user:pw@h:1/v1", "api_key": api_key}
    )
    assert settings.endpoint == endpoint
