"""The driver as client of agent servers: one POST of a row to `/run`, its answer as bytes.

A `/run` is sent once. Whatever goes wrong is a failed attempt, and whether another can help is said with it.
"""

from __future__ import annotations

from rollgym.common import jsonx
from rollgym.common.errors import AgentRequestFailed, ArtifactError
from rollgym.common.redaction import redact_text
from rollgym.driver.bulk_http.answer import ExchangeError
from rollgym.driver.bulk_http.client import BulkClient
from rollgym.driver.file_range import FileRange
from rollgym.driver.http_client import MAX_ANSWER_BYTES, descriptors_error, excerpt, out_of_descriptors
from rollgym.driver.owed_row import OwedRow
from rollgym.driver.payload_memory import PayloadMemory, Reservation

_RETRYABLE_STATUSES = frozenset({408, 425, 429})


class _RowBody(Reservation):
    """A row as a request's body, and the room that it takes until the kernel has it."""

    __slots__ = ("_row", "size")

    def __init__(self, row: OwedRow, sending: PayloadMemory, server: str) -> None:
        super().__init__(sending)
        self.server = server
        self._row = row
        self.size = row.size

    def room_now(self) -> bool:
        return self.take_now(self.size)

    async def room(self) -> None:
        await self.take(self.size)

    def in_file(self) -> FileRange | None:
        """Raises ArtifactError, as `read` does."""
        try:
            return self._row.in_file()
        except OSError as error:
            raise self._unreadable(error) from error

    def read(self) -> bytes:
        """Raises ArtifactError: a row that cannot be read, or is not as long as it was, is no agent's fault."""
        try:
            content = self._row.read()
        except OSError as error:
            raise self._unreadable(error) from error
        if len(content) != self.size:
            raise ArtifactError(f"{self._row.rows.path} is no longer what it was")
        return content

    def sent(self) -> None:
        self.give_back()

    def _unreadable(self, error: OSError) -> ArtifactError:
        return ArtifactError(f"cannot read a row of {self._row.rows.path}: {error.strerror}")


async def post_run(
    http: BulkClient,
    url: str,
    row: OwedRow,
    sending: PayloadMemory,
    memory: Reservation,
    limit_bytes: int = MAX_ANSWER_BYTES,
) -> bytes | bytearray:
    """Send a row to the agent server at `url`; returns the body of its answer.

    The row is sent when there is a connection, and room in `sending` for what the kernel may leave of it; a first
    attempt's goes from its file. The answer is received when `memory` has room.
    Raises AgentRequestFailed (`terminal` where the answer was a 4xx that a repeat gets again), PayloadTooLarge for an
    answer over `limit_bytes`, ArtifactError where the row cannot be read. Cancellation closes the connection, which an
    agent server can notice.
    """
    body, memory.server = _RowBody(row, sending, url), url
    try:
        answer = await http.post(f"{url}/run", body, memory, limit_bytes)
    except (ExchangeError, OSError) as error:
        shown = redact_text(url)
        if out_of_descriptors(error):
            raise descriptors_error(shown) from error
        raise AgentRequestFailed(f"{shown}/run: {error}", url=shown) from error
    finally:
        body.give_back()
    if answer.status < 300:
        return answer.body
    final = 300 <= answer.status < 500 and answer.status not in _RETRYABLE_STATUSES
    raise AgentRequestFailed(
        f"the agent answered {answer.status}: {_detail(bytes(answer.body))}", status=answer.status, terminal=final
    )


def _detail(body: bytes) -> str:
    """The text that an error answer carries: its `message` or `detail` where it is such JSON, else its start."""
    try:
        content = jsonx.loads(body)
    except ValueError:
        content = None
    if isinstance(content, dict):
        said = content.get("message") or content.get("detail")
        if isinstance(said, str):
            return said
    return excerpt(body) or "(empty body)"
