"""One OpenAI-compatible endpoint over HTTP: posts a request, repeats what may be repeated, names what failed.

Owns the connections, the retries and the errors. What a body means belongs to the dialects (`openai_responses`,
`openai_chat`).
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeVar

import aiohttp
from pydantic import SecretStr

from rollgym.common.errors import ModelError, ModelTimeout, PayloadTooLarge
from rollgym.common.logs import get_logger
from rollgym.common.redaction import REDACTED, redact_text
from rollgym.driver.http_client import (
    MAX_ANSWER_BYTES,
    body_of,
    descriptors_error,
    excerpt,
    open_client_session,
    out_of_descriptors,
    read_bounded,
    read_start,
)
from rollgym.driver.policies.retrying import Backoff, is_retryable_status, parse_retry_after
from rollgym.driver.policies.settings import PolicySettings

_log = get_logger(__name__)
_FINAL_HINTS = {
    400: "the request was refused",
    401: "the API key is missing or wrong",
    403: "the API key has no right to this",
    404: "no such path or model: is base_url right (it usually ends in /v1), and the model's name?",
}
_SHOWN_BYTES = 2048
Answer = TypeVar("Answer")
Reader = Callable[[aiohttp.ClientResponse], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class _Failure:
    """One failed try: the error to raise if it was the last one, and whether another may follow."""

    error: ModelError
    retryable: bool
    retry_after_s: float | None = None


async def read_json_body(response: aiohttp.ClientResponse) -> bytes:
    """The body of an answer that should be JSON. Raises ModelError where it is empty, or a web page."""
    raw = await read_bounded(response, MAX_ANSWER_BYTES, "the model's answer")
    if not raw.strip():
        raise ModelError("the answer is empty")
    if raw.lstrip()[:1] == b"<":
        raise ModelError(f"the answer is HTML or XML, no JSON (is base_url an API's?): {excerpt(raw)}", terminal=True)
    return raw


class ModelEndpoint:
    """An async context manager that holds the connections to one model endpoint for a whole run."""

    def __init__(self, settings: PolicySettings) -> None:
        self._base_url = settings.endpoint
        self._shown_url = redact_text(settings.endpoint)
        self._key: SecretStr | None = settings.api_key
        self._request_timeout_s = settings.request_timeout_s
        self._max_retries = settings.max_retries
        self._backoff = Backoff(settings.backoff_s, settings.max_backoff_s, random.Random())  # jitter, no secret
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        headers = {"Content-Type": "application/json"}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key.get_secret_value()}"
        self._session = open_client_session(headers=headers)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def post(self, path: str, body: bytes, read: Reader[Answer], deadline: float | None) -> Answer:
        """POST `body` and let `read` take the answer (status 200), repeating failed tries.

        A try that fails with 408, 409, 429, 5xx or a broken connection is repeated up to `max_retries` times,
        `Retry-After` honoured, as long as the wait ends before `deadline` (the loop's time). A try without an answer
        within `request_timeout_s` is not repeated: the model may still be working on it. Raises ModelTimeout for that
        and ModelError for the rest.
        """
        attempt = 0
        while True:
            attempt += 1
            outcome = await self._try(path, body, read)
            if not isinstance(outcome, _Failure):
                return outcome
            outcome.error.data["attempts"] = attempt
            if not outcome.retryable or attempt > self._max_retries:
                raise outcome.error
            delay_s = self._backoff.delay(attempt, outcome.retry_after_s)
            if deadline is not None and asyncio.get_running_loop().time() + delay_s >= deadline:
                outcome.error.data["retry_would_wait_s"] = round(delay_s, 3)
                raise outcome.error
            _log.debug("model_call_retried", attempt=attempt, delay_s=round(delay_s, 3), cause=outcome.error.message)
            await asyncio.sleep(delay_s)

    async def _try(self, path: str, body: bytes, read: Reader[Answer]) -> Answer | _Failure:
        if self._session is None:
            raise RuntimeError("the policy is not open: use it as an async context manager")
        request = self._session.post(f"{self._base_url}{path}", data=body_of(body), allow_redirects=False)
        url = f"{self._shown_url}{path}"
        try:
            async with asyncio.timeout(self._request_timeout_s) as limit:
                async with request as response:
                    if response.status != 200:
                        return await self._refusal(url, response)
                    return await read(response)
        except TimeoutError as error:
            if limit.expired():
                return _Failure(self._timed_out(url, error), retryable=False)
            return self._broken(url, error)  # aiohttp's own: the connection could not be made in time
        except aiohttp.ClientError as error:
            return self._broken(url, error)
        except (PayloadTooLarge, ModelError) as error:  # what `read` made of the body
            named = ModelError(f"{url}: {self._without_secrets(error.message)}", **error.data)
            named.__cause__ = error
            return _Failure(named, retryable=bool(named.data.pop("retryable", False)))

    def _timed_out(self, url: str, cause: TimeoutError) -> ModelTimeout:
        error = ModelTimeout(
            f"{url}: no answer within request_timeout_s = {self._request_timeout_s:g} s",
            timeout_s=self._request_timeout_s,
        )
        error.__cause__ = cause
        return error

    def _broken(self, url: str, cause: Exception) -> _Failure:
        """A try that got no whole answer. Raises LocalResourceError where this process is to blame."""
        if out_of_descriptors(cause):
            raise descriptors_error(url) from cause
        final = isinstance(cause, aiohttp.InvalidURL | aiohttp.ClientSSLError)
        text = self._without_secrets(str(cause)) or "the server closed the connection"
        error = ModelError(f"{url}: {text}", cause=type(cause).__name__)
        error.__cause__ = cause
        if final:
            error.data["terminal"] = True
        return _Failure(error, retryable=not final)

    async def _refusal(self, url: str, response: aiohttp.ClientResponse) -> _Failure:
        status = response.status
        body = self._without_secrets(excerpt(await read_start(response, _SHOWN_BYTES + 1), _SHOWN_BYTES))
        retryable = is_retryable_status(status)
        hint = _FINAL_HINTS.get(status)
        if 300 <= status < 400:
            hint = f"redirects to {redact_text(response.headers.get('Location', '?'))}: set base_url to that"
        sentence = f"{url} answered {status}" + (f" ({hint})" if hint else "") + (f": {body}" if body else "")
        error = ModelError(sentence, http_status=status, body=body, terminal=not retryable)
        return _Failure(error, retryable, parse_retry_after(response.headers.get("Retry-After")))

    def _without_secrets(self, text: str) -> str:
        if self._key is not None and (secret := self._key.get_secret_value()):
            text = text.replace(secret, REDACTED)
        return redact_text(text)
