"""Tools: what they take, what they become on the wire, and what a model reads of their answers."""

import json
from typing import Any

import pytest

from rollgym.common.errors import BadRequest, InvalidArguments, UnknownTool
from rollgym.resources.arguments import ArgumentCheck
from rollgym.resources.frames import ErrorFrame, Observation
from rollgym.resources.tools import Answer, Tool, ToolSet, step_tool

SCHEMA = {
    "type": "object",
    "properties": {
        "mw": {"type": "number", "minimum": 0, "description": "power"},
        "note": {"type": "string"},
        "unit": {"enum": ["a", "b"]},
        "n": {"type": "integer"},
    },
    "required": ["mw"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    "arguments",
    [{"mw": 1}, {"mw": 2.5, "note": "x"}, {"mw": 0, "unit": "a"}, {"mw": 1, "n": 3.0}],
    ids=["plain", "two fields", "a keyword beyond the quick look", "an integer written as a float"],
)
def test_arguments_that_fit(arguments: dict[str, Any]) -> None:
    body = json.dumps(arguments).encode()
    assert ArgumentCheck("dispatch", SCHEMA)(body) == body


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param({}, "'mw' is a required property", id="missing"),
        pytest.param({"mw": "1"}, "mw: '1' is not of type 'number'", id="wrong type"),
        pytest.param({"mw": True}, "mw: True is not of type 'number'", id="a boolean is no number"),
        pytest.param({"mw": -1}, "mw: -1 is less than the minimum", id="out of range"),
        pytest.param({"mw": 1, "more": 2}, "'more' was unexpected", id="one too many"),
        pytest.param({"mw": 1, "unit": "c"}, "unit: 'c' is not one of", id="not in the enum"),
    ],
)
def test_arguments_that_do_not_fit(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        ArgumentCheck("dispatch", SCHEMA)(json.dumps(arguments).encode())
    assert said in caught.value.message
    assert caught.value.data["tool"] == "dispatch"


@pytest.mark.parametrize(
    "body", [b"{", b"nope", b"[1]", b'"x"', b"null", b"3", b'{"a":NaN}', b'{"a":"\xff"}'], ids=repr
)
def test_bodies_that_are_no_object(body: bytes) -> None:
    with pytest.raises(BadRequest):
        ArgumentCheck("step", {"type": "object"})(body)


@pytest.mark.parametrize("body", [b"", b"  \n"])
def test_no_body_means_no_arguments(body: bytes) -> None:
    assert ArgumentCheck("look", {"type": "object", "properties": {}})(body) == b"{}"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}},
        {"$defs": {"A": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/A"}}},
        {"type": ["object"], "properties": {"a": {"type": ["integer", "null"]}}},
    ],
    ids=["anyOf", "$ref", "lists of types"],
)
def test_schemas_beyond_the_quick_look_are_still_checked(schema: dict[str, Any]) -> None:
    check = ArgumentCheck("t", schema)
    assert check(b'{"a": 1}') == b'{"a": 1}'
    with pytest.raises(InvalidArguments):
        check(b'{"a": "x"}')


def test_a_schema_that_is_none_lets_any_object_pass() -> None:
    assert ArgumentCheck("t", {"type": "nonsense"})(b'{"a":1}') == b'{"a":1}'


def test_a_call_over_mcp_is_a_call_tool_step() -> None:
    tool = Tool('di"s', "", {"type": "object"}, over_mcp=True)
    assert json.loads(tool.frame(b'{"a": 1}')) == {
        "type": "step",
        "data": {"type": "call_tool", "tool_name": 'di"s', "arguments": {"a": 1}},
    }


def test_a_plain_step_is_the_action_itself() -> None:
    assert json.loads(step_tool(None).frame(b'{"guess": "crane"}')) == {"type": "step", "data": {"guess": "crane"}}


def test_an_unknown_tool_names_those_that_exist() -> None:
    tools = ToolSet([Tool("look", "", {}, over_mcp=True), Tool("go", "", {}, over_mcp=True)])
    with pytest.raises(UnknownTool, match="look, go") as caught:
        tools.named("fly")
    assert caught.value.data == {"tools": ["look", "go"]}


def test_tools_as_openai_functions() -> None:
    listed = json.loads(ToolSet([Tool("look", "Look around", {"type": "object"}, over_mcp=True)]).functions_json)
    assert listed == [
        {
            "type": "function",
            "name": "look",
            "description": "Look around",
            "parameters": {"type": "object"},
            "strict": False,
        }
    ]


def mcp_answer(**fields: Any) -> Answer:
    observation = json.dumps({"metadata": {}, "tool_name": "look", **fields}).encode()
    return Tool("look", "", {}, over_mcp=True).answer(Observation(observation, None, False, None))


def content(*blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"content": list(blocks), "is_error": False, **more}


@pytest.mark.parametrize(
    ("fields", "text", "is_json"),
    [
        pytest.param({"result": content({"type": "text", "text": "a lamp"})}, "a lamp", False, id="text"),
        pytest.param({"result": content({"type": "text", "text": '{"mw":1}'})}, '{"mw":1}', True, id="JSON as text"),
        pytest.param({"result": content({"type": "text", "text": "{no"})}, "{no", False, id="nearly JSON"),
        pytest.param(
            {"result": content({"type": "text", "text": "a"}, {"type": "text", "text": "b"})},
            "a\nb",
            False,
            id="two texts",
        ),
        pytest.param({"result": content(structured_content={"x": 1})}, '{"x": 1}', True, id="structured only"),
        pytest.param({"result": "plain"}, "plain", False, id="a string"),
        pytest.param({"result": {"x": 1}}, '{"x":1}', True, id="an object"),
        pytest.param({"result": [1, 2]}, "[1,2]", True, id="a list"),
    ],
)
def test_what_a_model_reads_of_a_tool(fields: dict[str, Any], text: str, is_json: bool) -> None:
    assert mcp_answer(**fields) == Answer(text.encode(), is_json=is_json)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"error": {"error_type": "timeout", "message": "too slow"}}, "too slow"),
        ({"error": "went wrong"}, "went wrong"),
        ({"result": {"content": [{"type": "text", "text": "no such lamp"}], "is_error": True}}, "no such lamp"),
        ({"result": {"content": [{"type": "text", "text": "no such lamp"}], "isError": True}}, "no such lamp"),
    ],
    ids=["error object", "error text", "result that is an error", "the same in camel case"],
)
def test_a_tools_own_error_is_an_answer(fields: dict[str, Any], told: str) -> None:
    answer = mcp_answer(**fields)
    assert json.loads(answer.text) == {"error": told}
    assert answer.is_error


def test_an_error_frame_is_an_answer_with_its_details() -> None:
    answer = step_tool(None).answer(ErrorFrame("VALIDATION_ERROR", "Invalid message", errors=[{"loc": ["guess"]}]))
    assert json.loads(answer.text) == {"error": "Invalid message", "errors": [{"loc": ["guess"]}]}


@pytest.mark.parametrize(
    ("frame", "read"),
    [
        (Observation(b'{"x":1}', b"0.5", False, None), {"observation": {"x": 1}, "reward": 0.5, "done": False}),
        (Observation(b'{"x":1}', b"null", True, None), {"observation": {"x": 1}, "done": True}),
        (Observation(b'"text"', None, False, None), {"observation": "text", "done": False}),
    ],
    ids=["with a reward", "null reward, done", "text"],
)
def test_what_a_model_reads_of_a_plain_step(frame: Observation, read: dict[str, Any]) -> None:
    assert json.loads(step_tool(None).answer(frame).text) == read
