"""The driver's client of the resources API: seed, tool calls, verify and close of one rollout's session.

Bodies stay bytes. Nothing is ever sent twice: a retry is a new attempt with a new session, and that is the collector's
decision. Cookies are carried by hand, per session.
"""

import asyncio
import enum
import secrets
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType, TracebackType
from typing import Any, Self
from urllib.parse import quote

import aiohttp
from pydantic import SecretStr
from yarl import URL

from rollgym.common import jsonx
from rollgym.common.errors import (
    AgentRequestFailed,
    EnvLost,
    EnvProtocolError,
    EnvRefused,
    RequestError,
    RollgymError,
    SessionClosed,
    Unauthorized,
    VerifyError,
)
from rollgym.common.logs import get_logger
from rollgym.common.redaction import redact_text
from rollgym.driver.http_client import (
    MAX_ANSWER_BYTES,
    LocalResourceError,
    body_of,
    open_client_session,
    read_bounded,
)
from rollgym.driver.policies.protocol import SeedAnswer
from rollgym.driver.presence import Presence
from rollgym.driver.resources_answers import (
    Reply,
    connection_errors,
    nobody_listens,
    refusal,
    said,
    says_done,
    seed_answer,
    unknown_refusal,
)
from rollgym.driver.verdict import Verdict, read_verdict

_log = get_logger(__name__)
SESSION_HEADER = "X-Session-Id"
SESSION_COOKIE = "rollgym_session"
"""Its value begins with the name of the replica that owns the session."""
NAME_HEADER = "X-Resources-Session-Id"
OWNER_HEADER = "X-Rollgym-Owner"
CLOSE_RETRY_S = 0.25
ONE_CLOSE_S = 4.0
"""One close may take so long: a connection may lead nowhere any more, and another be had."""
LATE_CLOSES_S = 120.0
"""So long is closing tried in the background where its rollout could not wait."""
LATE_CLOSE_RETRY_S = 2.0
_LATER = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})
"""Answers below 500 by which nothing is settled yet."""
SEED_GRACE_S = 0.5
_TOOLS_OWN_ERROR = b'{"error":'
_FOR_THE_MODEL = frozenset({400, 404, 405, 413, 415, 422, 500})
RESERVED_PATHS = frozenset(
    {
        "aggregate_metrics",
        "close_session",
        "health",
        "mcp",
        "metrics",
        "ready",
        "reverify_mode",
        "seed_session",
        "sessions",
        "tools",
        "verify",
    }
)
"""Paths that are no tools: a model that "calls" one of them must not reach it."""


class SessionState(enum.Enum):
    """Where a session stands; it only moves down this list."""

    NEW = "new"
    SEEDING = "seeding"
    OPEN = "open"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """What a tool said. `text` is what the model reads, errors included."""

    text: str
    ok: bool = True
    done: bool = False
    """The episode is over: no further call makes sense."""
    error_type: str | None = None


class ResourcesClient:
    """Connections to resources servers, shared by all rollouts of a run. An async context manager."""

    def __init__(
        self,
        token: SecretStr | None = None,
        max_answer_bytes: int = MAX_ANSWER_BYTES,
        late_closes_s: float = LATE_CLOSES_S,
    ) -> None:
        self._token = token
        self._max_answer_bytes = max_answer_bytes
        self.late_closes_s = late_closes_s
        self._http: aiohttp.ClientSession | None = None
        self.owner = secrets.token_hex(16)
        """Who seeds: sessions end with their owner. A secret, as whoever knows it can be there in its place."""
        self._presence = Presence(self._hold)
        self._late_closes: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        headers = {"Content-Type": "application/json"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token.get_secret_value()}"
        self._http = open_client_session(headers=headers)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._presence.end()
        for task in self._late_closes:
            task.cancel()  # the server closes what is left: its owner is there no more
        await asyncio.gather(*self._late_closes, return_exceptions=True)
        http, self._http = self._http, None
        if http is not None:
            await http.close()

    def session(self, base_url: str) -> "ResourcesSession":
        """A session, not yet seeded, on the replica at `base_url`."""
        base_url = base_url.rstrip("/")
        self._presence.at(base_url)
        return ResourcesSession(self, base_url)

    def seeded(self, base_url: str, cookies: Mapping[str, str]) -> None:
        """A seed was answered with `cookies`: be there for the very replica that answered."""
        if (token := cookies.get(SESSION_COOKIE)) is not None:
            self._presence.at(base_url, token.partition(".")[0], cookies)

    async def _hold(self, base_url: str, cookies: Mapping[str, str]) -> int:
        headers = {"Cookie": _cookie_header(cookies)} if cookies else {}
        reply = await self.send(f"{base_url}/owners/{self.owner}", b"{}", headers, EnvLost)
        return reply.status

    def close_late(self, closing: Coroutine[Any, Any, None]) -> None:
        """Run a close in the background, for a while; what is left when this client ends ends with its owner."""
        task = asyncio.create_task(closing, name="late-close")
        self._late_closes.add(task)
        task.add_done_callback(self._late_closes.discard)

    async def post_json(self, url: str, body: bytes) -> bytes:
        """POST one request outside a session, such as /aggregate_metrics, and give the body of its 200.

        Raises the server's own error, or EnvRefused, EnvProtocolError and their kind. Sent once.
        """
        reply = await self.send(url, body, {}, EnvLost)
        if reply.status != 200:
            raise refusal(reply, url) or EnvProtocolError(said(reply, url), http_status=reply.status)
        return reply.body

    async def send(self, url: str, body: bytes, headers: dict[str, str], broken: type[RollgymError]) -> Reply:
        """POST once and read the whole answer, whatever its status. `broken`: the error of a call cut off midway."""
        if self._http is None:
            raise RuntimeError("the resources client is not open: use it as an async context manager")
        with connection_errors(url, broken):
            async with self._http.post(
                URL(url, encoded=True), data=body_of(body), headers=headers, allow_redirects=False
            ) as response:
                received = await read_bounded(response, self._max_answer_bytes, "the resources server's answer")
                return Reply(response.status, response.headers, received)


class ResourcesSession:
    """One rollout's session on one resources server: seeded once, verified at most once, always closed."""

    def __init__(self, client: ResourcesClient, base_url: str) -> None:
        self._client = client
        self._base_url = base_url
        self._cookies: dict[str, str] = {}
        self._name = secrets.token_hex(16)
        """Ours for the session from the start, so that it can be closed where the seed's answer never came."""
        self._seeding: asyncio.Task[Reply] | None = None
        self.session_id: str | None = None
        self.state = SessionState.NEW

    async def seed(self, row: bytes) -> SeedAnswer:
        """Open the session for a task row; waits as long as the server's patience for a free environment.

        Cancelled, it leaves the request under way for `close` to settle: its answer may bring a session yet. Raises
        EnvBusy, EnvRefused, EnvProtocolError, AgentRequestFailed (the row was refused) and their kind.
        """
        if self.state is not SessionState.NEW:
            raise RuntimeError(f"the session is {self.state.value}: seed it once")
        self.state = SessionState.SEEDING
        try:
            named = {NAME_HEADER: self._name, OWNER_HEADER: self._client.owner}
            self._seeding = asyncio.create_task(self._send("/seed_session", row, EnvLost, named))
            reply = await asyncio.shield(self._seeding)
        except (EnvRefused, LocalResourceError):
            self.state = SessionState.CLOSED  # the server never heard of it
            raise
        if reply.status != 200:
            error = refusal(reply, self._base_url)
            if error is not None:
                self.state = SessionState.CLOSED  # the server itself said no, not something on the way to it
            error = error or unknown_refusal(reply, self._base_url)
            if isinstance(error, RequestError) and not isinstance(error, Unauthorized):
                data = {**error.data, "terminal": True}
                raise AgentRequestFailed(f"the seed was refused: {error.message}", **data) from error
            raise error
        answer = seed_answer(reply, self._base_url)
        self.session_id = answer.session_id
        self.state = SessionState.OPEN
        self._client.seeded(self._base_url, self._cookies)
        return answer

    async def call_tool(self, name: str, arguments: bytes) -> ToolAnswer:
        """Call one tool with a JSON object. What the tool or its argument check says is an answer, not an error.

        Raises SessionReclaimed, SessionUnknown, EnvLost, EnvBusy and their kind: then the episode is lost.
        """
        reply = await self._send(f"/{quote(name, safe='', errors='replace')}", arguments, EnvLost)
        text = reply.body.decode("utf-8", errors="replace")
        if reply.status == 200:
            ok = not reply.body.startswith(_TOOLS_OWN_ERROR)
            return ToolAnswer(text, ok=ok, done=says_done(reply), error_type=None if ok else "tool_error")
        error = refusal(reply, self._base_url)
        if isinstance(error, SessionClosed):
            return ToolAnswer(text, ok=False, done=True, error_type=error.code)
        if isinstance(error, RequestError) and not isinstance(error, Unauthorized):
            return ToolAnswer(text, ok=False, error_type=error.code)
        if error is None and reply.status in _FOR_THE_MODEL:
            # A resources server that is not ours: what its tool raised, or its own refusal, is for the model to read.
            return ToolAnswer(text or f'{{"error":"HTTP {reply.status}"}}', ok=False, error_type=f"http_{reply.status}")
        raise error or unknown_refusal(reply, self._base_url)

    async def verify(self, body: bytes) -> Verdict:
        """Have the episode judged; the server closes the session by it. Sent once.

        Raises the error behind an answer masked as an error (`data["masked"]`), VerifyError, InvalidReward.
        """
        reply = await self._send("/verify", body, VerifyError)
        if reply.status != 200:
            error = refusal(reply, self._base_url)
            if error is None or (isinstance(error, RequestError) and not isinstance(error, Unauthorized)):
                data = error.data if error is not None else {"http_status": reply.status}
                raise VerifyError(said(reply, f"{self._base_url}/verify"), **data) from error
            raise error
        verdict = read_verdict(reply.body)
        self.state = SessionState.CLOSED
        return verdict

    async def close(self, timeout_s: float) -> None:
        """Release the session, if there may be one. Idempotent, shielded from cancellation, at most `timeout_s`.

        A close that fails is tried again in that time, and then in the background: no rollout's outcome hangs on it.
        """
        if self.state in (SessionState.NEW, SessionState.CLOSED):
            self.state = SessionState.CLOSED
            return
        self.state = SessionState.CLOSED
        await _shielded(self._close(timeout_s))

    async def _close(self, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await self._settle_seed()
                if await self._close_until_taken(CLOSE_RETRY_S):
                    return
        except TimeoutError:
            pass
        _log.info("session_not_closed_yet", **self._shown())
        self._client.close_late(self._close_late())

    async def _close_late(self) -> None:
        try:
            async with asyncio.timeout(self._client.late_closes_s):
                taken = False
                while not taken:
                    await asyncio.sleep(LATE_CLOSE_RETRY_S)
                    taken = await self._close_until_taken(LATE_CLOSE_RETRY_S)
        except TimeoutError:
            _log.warning("session_not_closed", **self._shown())

    def _shown(self) -> dict[str, str | None]:
        """Who it is, for logs: of its id, which lets one use it, the part that the server shows of it too."""
        return {"session": self.session_id and self.session_id[:8], "url": redact_text(self._base_url)}

    async def _settle_seed(self) -> None:
        """After a cancelled seed: give its answer a moment, since only that tells which session to close; then hang up,
        which tells the server that nobody waits."""
        seeding = self._seeding
        if seeding is None:
            return
        try:
            await asyncio.wait([seeding], timeout=SEED_GRACE_S)
        finally:
            seeding.cancel()
            await asyncio.wait([seeding])
        if not seeding.cancelled():
            seeding.exception()  # seen: the rollout is over already

    async def _close_until_taken(self, retry_s: float) -> bool:
        """Repeat the close until the server takes it: closing twice is closing once. Ends with the caller's time.

        False where the server is out of reach for now.
        """
        while True:
            try:
                async with asyncio.timeout(ONE_CLOSE_S):
                    reply = await self._send("/close_session", self._close_body(), EnvLost)
                if reply.status < 500 and reply.status not in _LATER:
                    return True
            except EnvRefused as error:
                return nobody_listens(error)  # then there is no session either
            except (RollgymError, TimeoutError) as error:
                _log.debug("close_failed", cause=str(error))
            await asyncio.sleep(retry_s)

    def _close_body(self) -> bytes:
        """Nothing where the seed was answered; else the name that we gave the session."""
        if self._cookies or self.session_id is not None:
            return b"{}"
        return jsonx.dumps({"resources_session_id": self._name, "episode_id": {"rollout_id": self._name}})

    async def _send(
        self, path: str, body: bytes, broken: type[RollgymError], headers: Mapping[str, str] = MappingProxyType({})
    ) -> Reply:
        sent = dict(headers)
        if self._cookies:
            sent["Cookie"] = _cookie_header(self._cookies)
        elif self.session_id is not None:
            sent[SESSION_HEADER] = self.session_id
        reply = await self._client.send(f"{self._base_url}{path}", body, sent, broken)
        for line in reply.headers.getall("Set-Cookie", ()):
            name, _, value = line.partition(";")[0].partition("=")
            self._cookies[name.strip()] = value.strip()
        return reply


def _cookie_header(cookies: Mapping[str, str]) -> str:
    return "; ".join(f"{name}={value}" for name, value in cookies.items())


async def _shielded(work: Coroutine[Any, Any, None]) -> None:
    """Run `work`, which must bound itself, to its end even where the caller is cancelled meanwhile."""
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    task.result()
    if cancelled is not None:
        raise cancelled
