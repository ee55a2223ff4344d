"""One result between socket and file: the fields that are read, the reward that counts, the bytes that stay."""

import functools
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollgym.common.errors import AgentRequestFailed, InvalidReward
from rollgym.driver.payloads import Payload
from rollgym.driver.rollout_facts import RolloutFacts

Kind = Callable[[bytes], bytes | bytearray]


def facts(reward: str | None = "1.0", **fields: Any) -> RolloutFacts:
    return payload(reward, **fields).facts()


def payload(reward: str | None = "1.0", **fields: Any) -> Payload:
    text = json.dumps(fields)
    return Payload((text if reward is None else f'{text[:-1]}{", " if fields else ""}"reward": {reward}}}').encode())


@pytest.mark.parametrize(
    ("text", "reward"),
    [
        ("0.25", 0.25), ("-3", -3.0), ("0", 0.0), ("1e308", 1e308), ("5e-324", 5e-324), ("true", 1.0), ("false", 0.0),
        ("100000000000000000000", 1e20),
    ],
)  # fmt: skip
def test_a_finite_number_is_a_reward(text: str, reward: float) -> None:
    assert facts(text).reward == reward


@pytest.mark.parametrize(
    "text",
    [
        "NaN",
        "Infinity",
        "-Infinity",
        "1e999",
        "-1e999",
        "1" + "0" * 400,
        "null",
        '"0.5"',
        '"nan"',
        '""',
        "[]",
        "{}",
        None,
    ],
    ids=lambda text: str(text)[:12],
)
def test_anything_else_is_none_and_never_zero(text: str | None) -> None:
    with pytest.raises(InvalidReward, match="the reward is no finite number"):
        facts(text)


@pytest.mark.parametrize("text", ["null", '"0.5"', "1e999", None], ids=str)
def test_a_masked_result_needs_none(text: str | None) -> None:
    found = facts(text, mask_sample=True, failure_kind="env_lost")
    assert (found.reward, found.masked, found.failure_kind) == (None, True, "env_lost")


def test_a_boolean_reward_is_stored_as_a_number() -> None:
    found = payload("true")
    found.facts()
    assert json.loads(b"".join(found.line()))["reward"] == 1.0
    assert b"true" not in b"".join(found.line())


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"[]", b"<html>", b'{"a": ', b'{"a": "\xff"}', b'{"a": NaN}', b'{"a":' * 100_000],
    ids=["empty", "null", "array", "html", "torn", "not-utf-8", "nan-elsewhere", "nested-deeply"],
)
def test_what_is_no_object_is_the_agents_failure(body: bytes) -> None:
    with pytest.raises(AgentRequestFailed) as failed:
        Payload(body)
    assert failed.value.data["terminal"]
    assert len(failed.value.message) < 400


@pytest.mark.parametrize(
    "value",
    ['"a\\ud800b"', '"\\ud83d\\ude00"', '"\u2028\u0085"', '{"z": [1.0, 1e400, 12345678901234567890123]}', '" \\u0000"'],
    ids=["lone-surrogate", "pair", "u2028", "odd-numbers", "nul"],
)
def test_what_is_not_read_goes_through_as_it_came(value: str) -> None:
    found = Payload(f'{{"reward": 1.0, "x": {value}}}'.encode())
    found.facts()
    found.put("_ng_task_index", 3)
    line = b"".join(found.line())
    assert value.encode() in line
    assert b"\n" not in line


def test_line_ends_between_tokens_do_not_break_the_line() -> None:
    line = b"".join(Payload(b'{\n "reward": 1,\r\n "x": [\n1,\n2]\n}').line())
    assert b"\n" not in line
    assert b"\r" not in line
    assert json.loads(line) == {"reward": 1, "x": [1, 2]}


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (None, (None, None, None)),
        ({}, (None, None, None)),
        ({"input_tokens": 100, "output_tokens": 50, "input_tokens_details": {"cached_tokens": 30}}, (100, 50, 30)),
        ({"input_tokens": 100, "output_tokens": 50, "total_tokens": 999}, (100, 50, None)),
        ({"input_tokens": "many"}, (None, None, None)),
        ({"input_tokens": 7, "output_tokens": None}, (7, None, None)),
    ],
    ids=["absent", "empty", "cached-is-part-of-input", "no-details", "a-text", "half"],
)
def test_tokens_are_those_reported_and_cached_ones_are_not_added(usage: Any, expected: tuple[int | None, ...]) -> None:
    response = {"status": "completed"} if usage is None else {"usage": usage}
    tokens = facts(response=response).tokens
    assert (tokens.input, tokens.output, tokens.cached) == expected


@pytest.mark.parametrize(
    ("fields", "truncated", "never_ran"),
    [
        ({}, False, False),
        ({"truncated": True}, True, False),
        ({"response": {"status": "incomplete"}}, True, False),
        ({"response": {"usage": {"input_tokens": 0, "output_tokens": 0}}}, False, True),
        ({"response": {}}, False, False),
        ({"response": "none"}, False, False),
        ({"response": None}, False, False),
    ],
    ids=["plain", "truncated", "incomplete", "no-token-read", "no-usage", "odd-response", "null-response"],
)
def test_health_marks_are_seen_and_change_no_reward(fields: dict[str, Any], truncated: bool, never_ran: bool) -> None:
    found = facts("0.0", **fields)
    assert (found.reward, found.truncated, found.never_ran) == (0.0, truncated, never_ran)


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ({"season": "winter", "n": 3}, {"season": "winter", "n": "3"}),
        (["hard"], {"tag:hard": "yes"}),
        ("hard", {}),
        (None, {}),
        ({"a": {"b": 1}}, {}),
    ],
    ids=["mapping", "list", "text", "null", "nested"],
)
def test_tags_are_text_by_name(tags: Any, expected: dict[str, str]) -> None:
    assert facts(tags=tags).tags == expected


@pytest.mark.parametrize("ref", [None, {}, {"name": 5}, "x", {"name": "mine"}], ids=str)
def test_the_agent_is_named_or_unknown(ref: Any) -> None:
    assert facts(agent_ref=ref).agent == ("mine" if ref == {"name": "mine"} else "unknown")


def test_a_failure_that_the_agent_marks_is_read() -> None:
    marks = payload(None, _ng_failure_class="died", _ng_failure_terminal=True, error_message="why").failure_marks()
    assert marks is not None
    assert (marks.failure_class, marks.terminal, marks.message) == ("died", True, "why")
    assert payload(None, _ng_failure_class=None).failure_marks() is None


def test_dropped_payloads_leave_ids_and_counts() -> None:
    call = {"model_call_id": "c", "request": {"x": 1}, "response": {"y": 2}, "token_stats": {"prompt_tokens": 3}}
    trajectory = {"invocations": [{"invocation_id": "i"}], "model_calls": [call, call]}
    found = payload(ng_trajectory=trajectory, ng_model_call_capture={"calls": [call]})
    found.strip_capture()
    kept = json.loads(b"".join(found.line()))
    bare = {"model_call_id": "c", "token_stats": {"prompt_tokens": 3}}
    assert kept["ng_trajectory"] == {**trajectory, "model_calls": [bare, bare]}
    assert kept["ng_model_call_capture"] == {"calls": [bare]}


@pytest.mark.parametrize("trajectory", ["text", [], 5, {"model_calls": "x"}, {"model_calls": [5]}], ids=str)
def test_a_trajectory_of_another_shape_is_kept_with_a_gap_and_the_row_stays(trajectory: Any) -> None:
    found = payload(ng_trajectory=trajectory)
    found.strip_capture()
    assert json.loads(b"".join(found.line())) == {"ng_trajectory": trajectory, "reward": 1.0}
    found.build_perf(5.0)
    row = json.loads(b"".join(found.line()))
    assert row["reward"] == 1.0
    assert [gap["code"] for gap in row["ng_trajectory"]["gaps"]] == ["trajectory_invalid"]
    kept = row["ng_trajectory"] if isinstance(trajectory, dict) else row["ng_trajectory_invalid"]
    assert kept == (trajectory | {"gaps": kept["gaps"]} if isinstance(trajectory, dict) else trajectory)


@pytest.mark.parametrize(
    ("body", "fields", "expected"),
    [
        (b'{"reward":1}', {"a": 2}, b'{"reward":1,"a":2}'),
        (b' {"reward":1} ', {"a": 2, "b": 3}, b' {"reward":1,"a":2,"b":3}'),
        (b'{"reward":1,"a":2}', {"a": 2}, b'{"reward":1,"a":2}'),
        (b'{"reward":1,"a":2}', {"a": 3}, b'{"reward":1,"a":3}'),
        (b"{}", {"a": 2}, b'{"a":2}'),
        (b'{"reward":1}', {}, b'{"reward":1}'),
    ],
    ids=["added", "blanks around", "the same again", "replaced", "empty", "untouched"],
)
def test_fields_are_put_beside_the_body_and_never_twice(body: bytes, fields: dict[str, int], expected: bytes) -> None:
    payload = Payload(body)
    for name, value in fields.items():
        payload.put(name, value)
    assert b"".join(payload.line()) == expected


def test_a_field_that_was_added_can_be_taken_out_again() -> None:
    payload = Payload(b'{"reward":1}')
    payload.put("a", 2)
    payload.drop("a")
    payload.drop("reward")
    assert b"".join(payload.line()) == b"{}"


@pytest.mark.parametrize(
    ("body", "failure_class"),
    [
        (b'{"reward": 1, "_ng_no_persist": true}', "agent_reported"),
        (b'{"reward": 1, "_ng_failure_class": {"a": 1}}', "agent_reported"),
        (b'{"reward": 1, "_ng_failure_class": "timeout_exceeded"}', "timeout_exceeded"),
        (b'{"reward": 1, "_ng_failure_class": "boo\\nhoo \\u001b[31m"}', "boo_hoo_31m"),
        (b'{"reward": 1, "_ng_failure_class": null}', None),
        (b'{"reward": 1}', None),
    ],
    ids=["no-persist", "an-object", "a-word", "odd-text", "null", "none"],
)
def test_an_agents_failure_marks_are_never_a_success(body: bytes, failure_class: str | None) -> None:
    marks = Payload(body).failure_marks()
    assert (None if marks is None else marks.failure_class) == failure_class


@pytest.mark.parametrize("mask", ["true", "1", '"yes"', "[]"])
def test_whatever_is_not_false_masks(mask: str) -> None:
    assert Payload(f'{{"reward": 1, "mask_sample": {mask}}}'.encode()).facts().masked


@pytest.mark.parametrize("mask", ["false", "null"])
def test_false_and_null_do_not_mask(mask: str) -> None:
    assert not Payload(f'{{"reward": 1, "mask_sample": {mask}}}'.encode()).facts().masked


def test_a_gap_stands_beside_those_that_are_there_and_the_row_stays() -> None:
    trajectory = {
        "invocations": [{"invocation_id": "i", "model_calls": [{"model_call_id": "gone"}]}],
        "model_calls": [{"model_call_id": "a", "request": {"input": "x"}}],
        "gaps": [{"code": "stream_cut"}],
    }
    found = Payload(json.dumps({"reward": 1.0, "ng_trajectory": trajectory}).encode())
    found.build_perf(5.0)
    row = json.loads(b"".join(found.line()))
    assert [gap["code"] for gap in row["ng_trajectory"]["gaps"]] == ["stream_cut", "model_call_reference_unmatched"]
    assert row["ng_trajectory"]["model_calls"] == trajectory["model_calls"]
    assert row["ng_perf"]["token_observability_coverage"] == 0.0


@pytest.mark.parametrize("trajectory", ['"text"', "[]", '{"gaps": 5}'], ids=["a text", "a list", "odd gaps"])
def test_a_trajectory_that_is_none_is_replaced_by_a_gap(trajectory: str) -> None:
    body = f'{{"reward": 1.0, "_ng_task_index": 3, "_ng_rollout_index": 0, "ng_trajectory": {trajectory}}}'
    found = Payload(body.encode())
    found.build_perf(5.0)
    row = json.loads(b"".join(found.line()))
    assert "ng_perf" not in row
    if trajectory != '{"gaps": 5}':
        assert row["ng_trajectory"]["rollout_id"] == "3-0"
        assert [gap["code"] for gap in row["ng_trajectory"]["gaps"]] == ["trajectory_invalid"]


@pytest.mark.parametrize(
    "trajectory", ["null", "[]", '{"invocations": 5}', '{"invocations": [{"invocation_id": "\\ud800"}]}', None], ids=str
)
def test_a_finished_row_says_the_same_without_its_trajectory(trajectory: str | None) -> None:
    own = "" if trajectory is None else f', "ng_trajectory": {trajectory}'
    response = '{"usage": {"input_tokens": 3, "odd": 2}}'
    body = f'{{"reward": true, "n": 4, "text": "\\udc00", "response": {response}, "ng_perf": {{"num_turns": 2}}{own}}}'
    finished, fresh = Payload(body.encode(), finished=True), Payload(body.encode())
    assert finished.facts() == fresh.facts()
    assert finished.numbers() == fresh.numbers() == {"reward": 1.0, "n": 4.0, "input_tokens": 3.0, "odd": 2.0}
    assert finished.raw("ng_trajectory") == fresh.raw("ng_trajectory")


@pytest.fixture(params=[bytes, bytearray], ids=["bytes", "bytearray"])
def kind(request: pytest.FixtureRequest) -> Kind:
    """Bodies come as either: from a buffer of the announced size, or joined from chunks."""
    found: Kind = request.param
    return found


def line_of(found: Payload) -> bytes:
    return b"".join(found.line())


@pytest.mark.parametrize("name", ["reward", "tags", "x", "ng_perf"])
@pytest.mark.parametrize(
    "keys",
    [('"{}"', '"{}"'), ('"\\u{:04x}{}"', '"{}"'), ('"{}"', '"\\u{:04x}{}"')],
    ids=["plain", "escaped-first", "escaped-last"],
)
def test_of_two_fields_of_one_name_the_last_one_counts(kind: Kind, name: str, keys: tuple[str, str]) -> None:
    first, last = (key.format(ord(name[0]), name[1:]) if ":" in key else key.format(name) for key in keys)
    body = f'{{"reward": 9, {first}: 1, "other": 0, {last}: 2}}'.encode()
    plain = json.loads(body)

    found = Payload(kind(body))
    assert found.value(name) == plain[name] == 2
    found.put("other", 0)
    found.put(name, 2)
    assert line_of(found) == body
    found.put(name, 1)
    assert json.loads(line_of(found)) == {**plain, name: 1}
    assert len(json.loads(line_of(found), object_pairs_hook=list)) == len(plain)
    found.drop(name)
    assert json.loads(line_of(found)) == {key: value for key, value in plain.items() if key != name}


@pytest.mark.parametrize("body", ["{}", "{ }", " {\t} "])
def test_an_empty_body_takes_fields(kind: Kind, body: str) -> None:
    found = Payload(kind(body.encode()))
    assert not found.has("reward")
    assert json.loads(line_of(found)) == {}
    found.put("a", 1)
    found.put("reward", 2)
    assert line_of(found) == b'{"a":1,"reward":2}'
    found.drop("a")
    found.drop("reward")
    assert json.loads(line_of(found)) == {}


def test_an_escaped_name_is_the_same_name(kind: Kind) -> None:
    found = Payload(kind(b'{"\\u0072eward": 0.5, "ng\\u005ftrajectory": {"invocations": [{"invocation_id": "i"}]}}'))
    found.build_perf(5.0)
    assert found.facts().reward == 0.5
    assert json.loads(line_of(found))["ng_perf"]["num_turns"] == 1
    found.put("reward", 1.0)
    found.drop("ng_trajectory")
    found.drop("ng_perf")
    assert line_of(found) == b'{"reward":1.0}'


@pytest.mark.parametrize(
    "steps",
    [[("a", 1)], [("a", ...), ("a", 1)], [("a", 5), ("a", ...), ("a", 1)], [("b", 2), ("b", ...)]],
    ids=["put", "dropped and put", "changed, dropped and put", "another one put and dropped"],
)
def test_what_is_as_it_came_goes_through_untouched(kind: Kind, steps: list[tuple[str, Any]]) -> None:
    body = b'{"reward": 1.50, "a": 1, "c": [1.0,  2e0]}'
    found = Payload(kind(body))
    for name, value in steps:
        if value is ...:
            found.drop(name)
        else:
            found.put(name, value)
    assert line_of(found) == body


VALID = '{"invocations": [{"invocation_id": "i"}], "model_calls": [{"request": 1, "response": 2, "k": 3}]}'


@pytest.mark.parametrize("wrong", ["null", "5", "[]", '{"invocations": 5}'])
@pytest.mark.parametrize("order", ["wrong, valid", "valid, wrong"])
def test_of_two_trajectories_the_last_one_counts(kind: Kind, wrong: str, order: str) -> None:
    last_is_valid = order.endswith("valid")
    first, last = (wrong, VALID) if last_is_valid else (VALID, wrong)
    body = f'{{"reward": 1.0, "ng_trajectory": {first}, "ng_trajectory": {last}}}'.encode()

    found = Payload(kind(body))
    found.build_perf(5.0)
    row = json.loads(line_of(found))
    assert ("ng_perf" in row) == last_is_valid
    assert len([name for name, _ in json.loads(line_of(found), object_pairs_hook=list) if name == "ng_perf"]) <= 1
    stripped = Payload(kind(body))
    stripped.strip_capture()
    row = json.loads(line_of(stripped))
    expected = {**json.loads(VALID), "model_calls": [{"k": 3}]} if last_is_valid else json.loads(wrong)
    assert row["ng_trajectory"] == expected


def test_no_trajectory_may_be_said_as_null(kind: Kind) -> None:
    """As whoever writes out an optional field does: nothing is wrong with it, and nothing is said of it."""
    body = b'{"reward": 1.0, "ng_trajectory": null}'
    found = Payload(kind(body))
    found.strip_capture()
    found.build_perf(5.0)
    assert found.has("ng_trajectory")
    assert line_of(found) == body
    found.put("ng_trajectory", json.loads(VALID))
    found.build_perf(5.0)
    pairs = json.loads(line_of(found), object_pairs_hook=list)
    assert [name for name, _ in pairs] == ["reward", "ng_trajectory", "ng_perf"]
    found.drop("ng_perf")
    found.drop("ng_trajectory")
    assert line_of(found) == b'{"reward":1.0}'


def test_without_a_trajectory_nothing_is_put_in(kind: Kind) -> None:
    body = b'{"reward": 1.0, "x": 1}'
    found = Payload(kind(body))
    found.strip_capture()
    found.build_perf(5.0)
    assert line_of(found) == body


def test_an_agents_own_perf_goes_with_or_without_a_trajectory(kind: Kind) -> None:
    for trajectory in ("", f', "ng_trajectory": {VALID}'):
        found = Payload(kind(f'{{"reward": 1.0, "ng_perf": {{"num_turns": 99}}{trajectory}}}'.encode()))
        found.build_perf(5.0)
        assert json.loads(line_of(found)).get("ng_perf", {}).get("num_turns") == (1 if trajectory else None)


def test_perf_is_of_the_trajectory_that_was_put_in(kind: Kind) -> None:
    found = Payload(kind(f'{{"reward": 1.0, "ng_trajectory": {VALID}}}'.encode()))
    found.put("ng_trajectory", b'{"invocations": [{"invocation_id": "i"}, {"invocation_id": "j"}]}')
    found.build_perf(5.0)
    assert json.loads(line_of(found))["ng_perf"]["num_turns"] == 2


@pytest.mark.parametrize("name", ["", "null", "agent's own"])
def test_a_failure_class_has_a_name_that_can_be_one(name: str) -> None:
    marks = payload(None, _ng_failure_class=name).failure_marks()
    assert marks is not None
    assert marks.failure_class == {"": "agent_reported", "null": "null", "agent's own": "agent_s_own"}[name]


NAMES = st.sampled_from(
    [
        "reward",
        "tags",
        "response",
        "ng_perf",
        "ng_trajectory",
        "rollgym_timings",
        "_ng_task_index",
        "x",
        "y",
        "",
        'q"\\\n',
        "é",
    ]
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
STEPS = st.lists(st.tuples(NAMES, VALUES | st.just(...)), max_size=6)
"""What is put in; `...` drops it."""


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """A JSON object as somebody may write it: repeated names, escapes or not, blanks and line ends between tokens."""
    fields = draw(st.lists(st.tuples(NAMES, VALUES), max_size=6))
    ascii_only, space = draw(st.booleans()), draw(st.sampled_from(["", " ", "\n", "\r\n\t"]))
    encode = functools.partial(json.dumps, ensure_ascii=ascii_only, indent=draw(st.sampled_from([None, 1])))
    inside = f",{space}".join(f"{encode(name)}{space}:{encode(value)}" for name, value in fields)
    return f"{space}{{{space}{inside}{space}}}{space}".encode()


@settings(max_examples=300, deadline=None)
@given(body=bodies(), steps=STEPS, as_bytes=st.booleans(), looked_at=st.booleans())
def test_a_line_is_what_a_plain_dictionary_would_be(
    body: bytes, steps: list[tuple[str, Any]], as_bytes: bool, looked_at: bool
) -> None:
    plain = json.loads(body)
    found = Payload(body if as_bytes else bytearray(body))
    for name, value in steps:
        if value is ...:
            found.drop(name)
            plain.pop(name, None)
        else:
            found.put(name, value)
            plain[name] = value
        if looked_at:
            assert found.has(name) == (name in plain)
            assert found.value(name) == plain.get(name)
    line = line_of(found)
    assert json.loads(line) == plain
    assert not set(b"\r\n") & set(line)


@settings(max_examples=100, deadline=None)
@given(text=st.text(st.characters(categories=["Cs", "L", "P"]), max_size=6), name=NAMES)
def test_lone_surrogates_come_out_as_they_came(text: str, name: str) -> None:
    plain = {"x": text, text: [text], "reward": 1.0}
    found = Payload(json.dumps(plain).encode())
    found.put(name, 5)
    assert json.loads(line_of(found)) == {**plain, name: 5}
