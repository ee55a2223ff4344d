"""The environments that this server can open: their addresses, how their rewards add up, what they reap."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from rollgym.common.errors import BadRequest
from rollgym.common.suggestions import did_you_mean
from rollgym.resources.rewards import RewardMode

_HTTP_OF = {"http": "http", "https": "https", "ws": "http", "wss": "https"}


def parse_environment_url(url: str) -> str:
    """The base URL, as http(s) without a trailing slash; `ws://host/ws` is taken for what it means.

    Raises ValueError saying what is wrong with it.
    """
    parts = urlsplit(url)
    if parts.scheme not in _HTTP_OF:
        raise ValueError(f"{url!r} is no URL of an environment server (http, https, ws or wss)")
    try:
        port = parts.port
    except ValueError as error:
        raise ValueError(f"{url!r}: {error}") from error
    if not parts.hostname or port == 0:
        raise ValueError(f"{url!r} names no host" if not parts.hostname else f"{url!r}: port 0 is no address")
    path = parts.path.rstrip("/")
    if parts.scheme in ("ws", "wss"):
        path = path.removesuffix("/ws")
    return urlunsplit((_HTTP_OF[parts.scheme], parts.netloc, path, "", ""))


@dataclass(frozen=True)
class Environment:
    """One environment of one server. `session_timeout_s`: the server may reap a session that is quiet for longer."""

    name: str
    base_url: str
    reward_mode: RewardMode = RewardMode.SUM
    session_timeout_s: float | None = None

    @property
    def ws_url(self) -> str:
        return self.base_url.replace("http", "ws", 1) + "/ws"

    @property
    def schema_url(self) -> str:
        return f"{self.base_url}/schema"

    @property
    def address(self) -> tuple[str, int]:
        """Host and port, for a look whether anything listens."""
        parts = urlsplit(self.base_url)
        return str(parts.hostname), parts.port or (443 if parts.scheme == "https" else 80)


class Environments:
    """The configured environments by name."""

    def __init__(self, environments: Iterable[Environment]) -> None:
        self._by_name = {environment.name: environment for environment in environments}

    def __iter__(self) -> Iterator[Environment]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    @property
    def names(self) -> list[str]:
        return list(self._by_name)

    def chosen(self, name: str | None) -> Environment:
        """The environment that a row names; the only one where it names none. Raises BadRequest."""
        if name is None:
            if len(self._by_name) == 1:
                return next(iter(self._by_name.values()))
            raise BadRequest(
                "the row names no `env`, and this server has several" if self._by_name else "no --env is configured",
                envs=self.names,
            )
        found = self._by_name.get(name)
        if found is None:
            known = ", ".join(self.names) or "none"
            raise BadRequest(
                f"no environment {name!r} here{did_you_mean(name, self.names)}; known: {known}", envs=self.names
            )
        return found

    def warnings(self, *, idle_timeout_s: float, step_timeout_s: float) -> Iterator[str]:
        """What will mask rollouts for a reason that a person could have known at start."""
        for environment in self:
            timeout_s = environment.session_timeout_s
            for name, ours in (("idle", idle_timeout_s), ("step", step_timeout_s)):
                if timeout_s is not None and ours > timeout_s:
                    yield (
                        f"{environment.name}: our {name} timeout of {ours:g} s is longer than the {timeout_s:g} s after"
                        " which the environment server may reap a session: rollouts that pause longer are masked"
                    )
