"""The task file: every line checked before anything starts, and what the lines ask for.

Not owned here: repeats, overrides and identity (`materialized.py`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from rollgym.common.errors import ConfigurationError
from rollgym.common.surrogates import decode_masking
from rollgym.driver.artifacts.lines import ReadLine, read_lines

T = TypeVar("T")

_Index = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
SHOWN_PROBLEMS = 10
MAX_LINE_BYTES = 32 * 1024 * 1024
"""What the resources server takes as one request body by default."""


class _Wanted(msgspec.Struct, gc=False):
    """The fields of a row that steer where it goes; each Raw until checked, so that a wrong type is named."""

    responses_create_params: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    env: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    agent_ref: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    task_index: msgspec.Raw | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="_ng_task_index")
    seed: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    reset: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    scripted: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class AgentRef(msgspec.Struct, gc=False):
    """Which agent runs a row; `type` is NeMo Gym's word for the kind of server."""

    name: str
    type: str = "responses_api_agents"


_wanted_decoder = msgspec.json.Decoder(_Wanted)


@dataclass(frozen=True, slots=True)
class TaskLine:
    """One valid task line: its bytes (lone surrogates masked, if `masked` says so) and where it wants to go."""

    number: int
    content: bytes
    masked: bool
    env: str | None
    agent: str | None
    task_index: int | None
    unplayable: str | None = None
    """Why the built-in agent cannot play it; an agent server may have its own idea of these fields."""


@dataclass
class TaskSurvey:
    """What a task file holds, found in one pass: its digest, how many lines, and which names they use.

    `names` maps each pair of agent and environment to the first line that has it, None standing for "names none";
    `unplayable` maps an agent to the first line that the built-in agent could not play, and why.
    """

    path: Path
    digest: str = ""
    tasks: int = 0
    names: dict[tuple[str | None, str | None], int] = field(default_factory=dict)
    unplayable: dict[str | None, tuple[int, str]] = field(default_factory=dict)


class _Problem(Exception):
    """A line that is no task; its text says why."""


def survey_tasks(path: Path, limit: int | None) -> TaskSurvey:
    """Check every line that will be used. Raises ConfigurationError naming file, line and reason of each bad one."""
    survey = TaskSurvey(path)
    problems: list[str] = []
    count = 0
    indexed: dict[bool, int] = {}
    for task in _checked(path, limit, problems):
        count += 1
        survey.names.setdefault((task.agent, task.env), task.number)
        if task.unplayable is not None:
            survey.unplayable.setdefault(task.agent, (task.number, task.unplayable))
        indexed.setdefault(task.task_index is not None, task.number)
    if len(indexed) == 2:
        problems.append(
            f"line {indexed[True]} has _ng_task_index and line {indexed[False]} has none: give it to all or to none"
        )
    if problems:
        shown = [f"{path}: {problem}" for problem in problems[:SHOWN_PROBLEMS]]
        if len(problems) > SHOWN_PROBLEMS:
            shown.append(f"{path}: … {len(problems)} bad lines in all")
        raise ConfigurationError("\n".join(shown), problems=len(problems))
    if count == 0 and limit != 0:
        raise ConfigurationError(f"input_jsonl_fpath: {path} holds no task line")
    survey.tasks = count
    survey.digest = _digest(path)
    return survey


def task_lines(path: Path, limit: int | None) -> Iterator[TaskLine]:
    """The task lines of a file that `survey_tasks` found good, read as they are asked for."""
    return _checked(path, limit, [])


def _checked(path: Path, limit: int | None, problems: list[str]) -> Iterator[TaskLine]:
    if limit == 0:
        _require_file(path)
        return
    used = 0
    try:
        for line in read_lines(path):
            try:
                yield _task_line(line)
            except _Problem as problem:
                problems.append(f"line {line.number}: {problem}")
            used += 1
            if limit is not None and used >= limit:
                return
    except OSError as error:
        raise _unreadable(path, error) from error


def _require_file(path: Path) -> None:
    try:
        path.open("rb").close()
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> ConfigurationError:
    return ConfigurationError(f"input_jsonl_fpath: cannot read {path}: {error.strerror}", path=str(path))


def _task_line(line: ReadLine) -> TaskLine:
    if len(line.content) > MAX_LINE_BYTES:
        raise _Problem(f"has {len(line.content):,} bytes; at most {MAX_LINE_BYTES:,} fit one request")
    try:
        line.content.decode("utf-8")
        wanted, content = decode_masking(line.content, _wanted_decoder)
    except UnicodeDecodeError as error:
        raise _Problem(f"is not UTF-8 (byte {error.start})") from error
    except msgspec.ValidationError as error:
        raise _Problem("is no JSON object") from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise _Problem(f"is no JSON: {str(error).removeprefix('JSON is malformed: ')}") from error
    _check_object(wanted.responses_create_params, "responses_create_params", required=True)
    _check_object(wanted.reset, "reset")
    return TaskLine(
        number=line.number,
        content=content,
        masked=content is not line.content,
        env=_decoded(wanted.env, str, "env must be the name of an environment"),
        agent=_agent_name(wanted.agent_ref),
        task_index=_decoded(wanted.task_index, _Index, "_ng_task_index must be an integer of 64 bits"),
        unplayable=_unplayable(wanted),
    )


def _unplayable(wanted: _Wanted) -> str | None:
    try:
        _decoded(wanted.seed, int, "seed must be an integer")
        _check_object(wanted.scripted, "scripted")
    except _Problem as problem:
        return str(problem)
    return None


def _check_object(raw: msgspec.Raw | msgspec.UnsetType, name: str, *, required: bool = False) -> None:
    if isinstance(raw, msgspec.UnsetType):
        if required:
            raise _Problem(f"has no {name} (an object with `input`)")
        return
    if not bytes(raw).lstrip().startswith(b"{"):
        raise _Problem(f"{name} must be an object")


def _agent_name(raw: msgspec.Raw | msgspec.UnsetType) -> str | None:
    ref = _decoded(raw, AgentRef, 'agent_ref must be an object with a name, for example {"name": "my_agent"}')
    return None if ref is None else ref.name


def _decoded(raw: msgspec.Raw | msgspec.UnsetType, kind: Any, complaint: str) -> Any:
    if isinstance(raw, msgspec.UnsetType):
        return None
    try:
        return msgspec.json.decode(raw, type=kind | None)
    except msgspec.DecodeError as error:
        raise _Problem(complaint) from error


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
