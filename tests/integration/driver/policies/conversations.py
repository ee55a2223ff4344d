"""Short conversations with a policy, and the answers of both dialects that say the same."""

from collections.abc import Sequence
from typing import Any

from rollgym.common import jsonx
from rollgym.driver.policies import ModelTurn, PolicySettings, SeedAnswer, TurnRequest, create_policy
from rollgym.driver.task_view import TaskView

WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "strict": False,
}
QUESTION = {"type": "message", "role": "user", "content": "Weather in Lisbon and Porto?"}
CITIES = ("Lisbon", "Porto")


def task(**params: Any) -> TaskView:
    row = {"responses_create_params": params, "_ng_task_index": 0, "_ng_rollout_index": 0}
    return TaskView.decode(jsonx.dumps(row))


async def ask(
    settings: PolicySettings,
    items: Sequence[dict[str, Any]] = (QUESTION,),
    *,
    tools: Sequence[dict[str, Any]] = (WEATHER,),
    deadline: float | None = None,
    **params: Any,
) -> ModelTurn:
    """One turn of a policy with these settings."""
    encoded = [jsonx.dumps(item) for item in items]
    async with create_policy(settings) as policy:
        session = policy.start(task(**params), SeedAnswer())
        return await session.respond(TurnRequest(encoded, [jsonx.dumps(tool) for tool in tools], 1, deadline))


def responses_answer(**fields: Any) -> dict[str, Any]:
    """A Responses object with reasoning, a text and two calls."""
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 5,
        "model": "m-2026",
        "status": "completed",
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "output": [
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Two cities."}]},
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "I will look.", "annotations": []}],
            },
            *(
                {
                    "type": "function_call",
                    "id": f"fc_{city}",
                    "call_id": f"call_{city}",
                    "name": "get_weather",
                    "arguments": f'{{"city": "{city}"}}',
                    "status": "completed",
                }
                for city in CITIES
            ),
        ],
        "usage": {
            "input_tokens": 100,
            "input_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 0},
            "output_tokens": 50,
            "output_tokens_details": {"reasoning_tokens": 10},
            "total_tokens": 150,
        },
        **fields,
    }


def chat_answer(finish_reason: str = "tool_calls", **fields: Any) -> dict[str, Any]:
    """The same as a chat completion."""
    message = {
        "role": "assistant",
        "content": "I will look.",
        "reasoning_content": "Two cities.",
        "tool_calls": [
            {
                "id": f"call_{city}",
                "type": "function",
                "function": {"name": "get_weather", "arguments": f'{{"city": "{city}"}}'},
            }
            for city in CITIES
        ],
    }
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 5,
        "model": "m-2026",
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
        "usage": {
            "prompt_tokens": 100,
            "completion_tokens": 50,
            "total_tokens": 150,
            "prompt_tokens_details": {"cached_tokens": 30},
            "completion_tokens_details": {"reasoning_tokens": 10},
        },
        **fields,
    }


def chat_chunks() -> list[Any]:
    """`chat_answer` streamed."""
    message = chat_answer()["choices"][0]["message"]
    deltas: list[dict[str, Any]] = [{"role": "assistant"}, {"reasoning_content": message["reasoning_content"]}]
    deltas += [{"content": word} for word in ("I will", " look.")]
    for index, call in enumerate(message["tool_calls"]):
        arguments = call["function"]["arguments"]
        deltas.append({"tool_calls": [{**call, "index": index, "function": {"name": "get_weather", "arguments": ""}}]})
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
            for piece in (arguments[:4], arguments[4:])
        ]
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 5, "model": "m-2026"}
    chunks: list[Any] = [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    chunks.append({**head, "choices": [], "usage": chat_answer()["usage"]})
    return [*chunks, b"[DONE]"]


def responses_events() -> list[Any]:
    """`responses_answer` streamed: its text as it comes, and the end."""
    final = responses_answer()
    message = final["output"][1]
    place = {"item_id": message["id"], "output_index": 0}
    part = {"type": "output_text", "text": "", "annotations": []}
    opening = {**final, "status": "in_progress", "output": [], "usage": None}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": opening},
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {**message, "status": "in_progress", "content": []},
        },
        {"type": "response.content_part.added", **place, "content_index": 0, "part": part},
        {"type": "response.output_text.delta", **place, "content_index": 0, "delta": "I will look.", "logprobs": []},
        {"type": "response.completed", "response": final},
    ]
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]
