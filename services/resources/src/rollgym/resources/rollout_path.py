"""The prefix `/ng-rollout/<rollout id>` that NeMo Gym's agents put before every path where they observe rollouts."""

from __future__ import annotations

import re

from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

_PREFIXED = re.compile(r"/ng-rollout/[A-Za-z0-9][A-Za-z0-9._-]*(/.*)")


class RolloutPath(BaseRoute):
    """Any path under the prefix, which means the path after it."""

    path = "/ng-rollout/{rollout_id}/{path}"

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        found = _PREFIXED.fullmatch(scope["path"]) if scope["type"] == "http" else None
        if found is None:
            return Match.NONE, {}
        return Match.FULL, {"path": found[1], "raw_path": found[1].encode()}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await scope["router"](scope, receive, send)
