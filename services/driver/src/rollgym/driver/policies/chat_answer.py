"""Chat Completions → Responses: a completion, whole or streamed, becomes one Responses object. Pure."""

from collections.abc import Mapping
from typing import Any

from rollgym.common import jsonx
from rollgym.common.errors import ModelError
from rollgym.driver.policies.items import function_call
from rollgym.driver.policies.usage import Usage

_TOKEN_FIELDS = ("prompt_token_ids", "generation_token_ids", "generation_log_probs")
_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


def response_of(completion: Any, request_id: str) -> dict[str, Any]:
    """The Responses object of a chat completion. `request_id` makes ids unique where the server gives none.

    Raises ModelError where `completion` is no chat completion.
    """
    if not isinstance(completion, Mapping):
        raise ModelError(f"the answer is no chat completion: {_shown(completion)}")
    if completion.get("error"):
        raise ModelError(f"the model failed: {_shown(completion['error'])}", retryable=True)
    choices = completion.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, Mapping) or not isinstance(choice.get("message"), Mapping):
        raise ModelError(f"the answer is no chat completion (it has no choices): {_shown(completion)}")
    reason = _INCOMPLETE.get(str(choice.get("finish_reason")))
    usage = Usage.from_chat(completion.get("usage"))
    identity = completion.get("id")
    response: dict[str, Any] = {
        "id": identity if isinstance(identity, str) and identity else f"resp_{request_id}",
        "object": "response",
        "created_at": completion.get("created") or 0,
        "status": "incomplete" if reason else "completed",
        "incomplete_details": {"reason": reason} if reason else None,
        "model": completion.get("model"),
        "output": output_items(choice["message"], choice.get("logprobs"), request_id),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    if usage is not None:
        response["usage"] = usage.to_responses()
    return response


def output_items(message: Mapping[str, Any], logprobs: Any, request_id: str) -> list[dict[str, Any]]:
    """An assistant message's items: reasoning, then text and refusal, then its tool calls in order.

    A message with nothing at all is one empty text, so that a turn always has an answer.
    """
    items: list[dict[str, Any]] = []
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(reasoning, str) and reasoning:
        summary = [{"type": "summary_text", "text": reasoning}]
        items.append({"type": "reasoning", "id": f"rs_{request_id}", "summary": summary})
    calls = _calls(message, request_id)
    content = _content_parts(message, logprobs)
    if content or not (items or calls):
        content = content or [_text_part("")]
        items.append(
            {
                "type": "message",
                "id": f"msg_{request_id}",
                "role": "assistant",
                "status": "completed",
                "content": content,
            }
        )
    items += calls
    items[-1].update({name: message[name] for name in _TOKEN_FIELDS if message.get(name) is not None})
    return items


def _content_parts(message: Mapping[str, Any], logprobs: Any) -> list[dict[str, Any]]:
    content = message.get("content")
    texts = [content] if isinstance(content, str) and content else []
    refusals = [message["refusal"]] if isinstance(message.get("refusal"), str) and message["refusal"] else []
    for part in content if isinstance(content, list) else ():
        if not isinstance(part, Mapping):
            continue
        if isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif isinstance(part.get("refusal"), str):
            refusals.append(part["refusal"])
    parts = [_text_part(text) for text in texts]
    tokens = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    if parts and tokens:
        parts[0]["logprobs"] = tokens
    return parts + [{"type": "refusal", "refusal": refusal} for refusal in refusals]


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": []}


def _calls(message: Mapping[str, Any], request_id: str) -> list[dict[str, Any]]:
    wanted = message.get("tool_calls") or []
    if not wanted and isinstance(message.get("function_call"), Mapping):
        wanted = [{"function": message["function_call"]}]  # the form before tool_calls, which some servers still send
    calls: list[dict[str, Any]] = []
    seen: set[str] = set()
    for position, call in enumerate(wanted):
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            raise ModelError(f"a tool call names no function: {_shown(call)}")
        call_id = call.get("id")
        if not isinstance(call_id, str) or not call_id or call_id in seen:
            call_id = f"call_{request_id}_{position}"
        seen.add(call_id)
        calls.append(function_call(function["name"], _arguments(function), call_id, f"fc_{call_id}"))
    return calls


def _arguments(function: Mapping[str, Any]) -> str:
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        return arguments
    return "" if arguments is None else jsonx.dumps(arguments).decode()


def _shown(value: Any) -> str:
    return jsonx.dumps(value).decode()[:2048]


class StreamedCompletion:
    """Puts the chunks of a streamed completion together into the completion that was meant."""

    def __init__(self) -> None:
        self._head: dict[str, Any] = {}
        self._text: dict[str, list[str]] = {"content": [], "refusal": [], "reasoning_content": []}
        self._calls: dict[int, dict[str, Any]] = {}
        self._logprobs: list[Any] = []
        self._finish_reason: str | None = None

    def add(self, chunk: Any) -> bool:
        """Take one chunk in. Returns whether it carried something that the model wrote.

        Raises ModelError for a chunk that is none, or that reports an error.
        """
        if not isinstance(chunk, Mapping):
            raise ModelError(f"an event of the stream is no chunk: {_shown(chunk)}")
        if chunk.get("error"):
            raise ModelError(f"the stream reports an error: {_shown(chunk['error'])}", retryable=True)
        self._head.update({key: chunk[key] for key in ("id", "created", "model", "usage") if chunk.get(key)})
        choices = chunk.get("choices") or []
        choice = choices[0] if isinstance(choices, list) and choices else {}
        self._finish_reason = choice.get("finish_reason") or self._finish_reason
        tokens = choice.get("logprobs")
        if isinstance(tokens, Mapping):
            self._logprobs += tokens.get("content") or []
        return self._add_delta(choice.get("delta") or {})

    def _add_delta(self, delta: Mapping[str, Any]) -> bool:
        wrote = False
        for name, pieces in self._text.items():
            piece = delta.get(name) or (delta.get("reasoning") if name == "reasoning_content" else None)
            if isinstance(piece, str) and piece:
                pieces.append(piece)
                wrote = True
        for call in delta.get("tool_calls") or ():
            self._add_call(call)
            wrote = True
        return wrote

    def _add_call(self, call: Mapping[str, Any]) -> None:
        index = call.get("index")
        position = index if isinstance(index, int) else len(self._calls)
        known = self._calls.setdefault(position, {"id": None, "name": "", "arguments": []})
        known["id"] = known["id"] or call.get("id")
        function = call.get("function") or {}
        known["name"] = known["name"] or function.get("name") or ""
        if function.get("arguments"):
            known["arguments"].append(function["arguments"])

    def completion(self) -> dict[str, Any]:
        """The whole completion. Raises ModelError where the stream ended before its finish."""
        if self._finish_reason is None:
            raise ModelError("the stream ended before the answer was complete", retryable=True)
        message: dict[str, Any] = {name: "".join(pieces) or None for name, pieces in self._text.items()}
        message["tool_calls"] = [
            {"id": call["id"], "function": {"name": call["name"], "arguments": "".join(call["arguments"])}}
            for _, call in sorted(self._calls.items())
        ]
        choice = {
            "message": message,
            "finish_reason": self._finish_reason,
            "logprobs": {"content": self._logprobs} if self._logprobs else None,
        }
        return {**self._head, "choices": [choice]}
