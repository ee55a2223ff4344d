"""What a simulated agent answers: a verify response as production agents send it, its bytes made once."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from rollgym.common import jsonx

_WORDS = ("alpha", "beta", "gamma", "delta", "grid", "node", "load", "power", "line", "shift")
_TASK, _ROLLOUT = "@@TASK@@", "@@ROLLOUT@@"
_ANSWER_CHARACTERS = 400


def history(messages: int, characters: int, rng: random.Random) -> list[dict[str, Any]]:
    """A conversation of `messages` messages of `characters` characters, user and assistant in turn."""
    return [
        {"role": "assistant" if number % 2 else "user", "type": "message", "content": _prose(characters, rng)}
        for number in range(messages)
    ]


@dataclass(frozen=True)
class ResultTemplate:
    """A result in pieces, cut where the rollout's identity goes."""

    pieces: tuple[bytes, ...]
    """What stands between the identities."""
    identities: tuple[str, ...]
    """Which identity follows each piece but the last: the task's or the rollout's."""

    @classmethod
    def make(cls, messages: int, characters: int, calls: int) -> ResultTemplate:
        """A result of `calls` captured model calls, each of which carries the whole history."""
        text = jsonx.dumps(_result(messages, characters, calls)).decode()
        pieces, identities = [], []
        while _TASK in text or _ROLLOUT in text:
            marker = min((m for m in (_TASK, _ROLLOUT) if m in text), key=text.index)
            piece, text = text.split(marker, 1)
            pieces.append(piece.encode())
            identities.append(marker)
        return cls((*pieces, text.encode()), tuple(identities))

    @property
    def size_bytes(self) -> int:
        return len(b"".join(self.filled(0, 0)))

    def filled(self, task: int, rollout: int) -> list[bytes]:
        """The result of one rollout; the large pieces are the same objects every time."""
        named = {_TASK: b"%d" % task, _ROLLOUT: b"%d-%d" % (task, rollout)}
        filled: list[bytes] = []
        for piece, identity in zip(self.pieces, self.identities, strict=False):
            filled += (piece, named[identity])
        return [*filled, self.pieces[-1]]


def _prose(characters: int, rng: random.Random) -> str:
    words = " ".join(rng.choices(_WORDS, k=characters // 4 + 1))
    return words[:characters].ljust(characters, ".")


def _result(messages: int, characters: int, calls: int) -> dict[str, Any]:
    rng = random.Random(0)
    conversation = history(messages, characters, rng)
    refs = [{"model_call_id": f"call_{number}"} for number in range(calls)]
    identity = {"task_id": _TASK, "rollout_id": _ROLLOUT}
    invocation = {
        "kind": "agent_invocation",
        "invocation_id": "root",
        "status": "completed",
        "model_calls": refs,
        "conversation": [],
    }
    turns = [
        {
            "invocation_id": "root",
            **identity,
            "turn_no": number + 1,
            "timestamp": float(number),
            "step_count": number + 1,
            "model_calls": [ref],
        }
        for number, ref in enumerate(refs)
    ]
    return {
        "responses_create_params": {"input": conversation, "model": "simulated"},
        "response": _response(calls, rng),
        "reward": 1.0,
        "ng_trajectory": {
            "schema_version": "1.0",
            **identity,
            "invocations": [invocation],
            "turns": turns,
            "model_calls": [_model_call(number, conversation, rng) for number in range(calls)],
            "tool_calls": [],
            "gaps": [],
        },
    }


def _response(number: int, rng: random.Random) -> dict[str, Any]:
    part = {"type": "output_text", "text": _prose(_ANSWER_CHARACTERS, rng), "annotations": []}
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    return {
        "id": f"resp_{number}",
        "created_at": 1.0,
        "model": "simulated",
        "object": "response",
        "status": "completed",
        "output": [message],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 40_000,
            "input_tokens_details": {"cached_tokens": 1_000},
            "output_tokens": 100,
            "output_tokens_details": {"reasoning_tokens": 10},
            "total_tokens": 40_100,
        },
    }


def _model_call(number: int, conversation: list[dict[str, Any]], rng: random.Random) -> dict[str, Any]:
    return {
        "model_call_id": f"call_{number}",
        "started_at": 1.0,
        "completed_at": 2.0,
        "duration_ms": 1_000.0,
        "request": {"input": conversation, "model": "simulated"},
        "response": _response(number, rng),
        "response_metadata": {
            "response_id": f"resp_{number}",
            "model": "simulated",
            "status_code": 200,
            "model_ref": {"type": "responses_api_models", "name": "policy_model"},
        },
        "token_stats": {
            "prompt_tokens": 40_000,
            "completion_tokens": 100,
            "reasoning_tokens": 10,
            "total_tokens": 40_100,
            "cached_tokens": 1_000,
        },
    }
