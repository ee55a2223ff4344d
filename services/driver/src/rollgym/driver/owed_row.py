"""One owed row on its way to an agent: read from disk when it is needed, held no longer.

A thousand rows in flight, each with its history, would be hundreds of megabytes of copies of a file.
"""

from __future__ import annotations

import msgspec

from rollgym.common.surrogates import decode_masking, unmask_lone_surrogates
from rollgym.driver.file_range import FileRange
from rollgym.driver.materialized import MaterializedRows, RowLabels
from rollgym.driver.outcomes import Attempt


class _Fields(msgspec.Struct, gc=False):
    responses_create_params: msgspec.Raw


_decoder = msgspec.json.Decoder(_Fields)


class OwedRow(msgspec.Struct, frozen=True, gc=False):
    """Where a row is, and which attempt it is for."""

    rows: MaterializedRows
    attempt: Attempt

    def read(self) -> bytes:
        """The row's bytes, with `_ng_attempt_index` where this is not the first attempt."""
        row = self.rows.read(self.attempt.position)
        number = self.attempt.number
        return row if number == 0 else row[:-1] + _attempt_index(number) + b"}"

    def in_file(self) -> FileRange | None:
        """Where just what `read` returns is; None where that stands in no file."""
        return None if self.attempt.number else self.rows.in_file(self.attempt.position)

    @property
    def size(self) -> int:
        """Bytes that `read` returns."""
        number = self.attempt.number
        return self.rows.size(self.attempt.position) + (len(_attempt_index(number)) if number else 0)

    @property
    def labels(self) -> RowLabels:
        return self.rows.labels_of(self.attempt.position)

    def responses_create_params(self) -> bytes:
        """As the row has them, encoded."""
        content = self.read()
        fields, decoded = decode_masking(content, _decoder)
        params = bytes(fields.responses_create_params)
        return params if decoded is content else unmask_lone_surrogates(params)


def readable(content: bytes) -> bytes:
    """A row as the decoder takes it: lone surrogates masked, if it has any."""
    return decode_masking(content, _decoder)[1]


def _attempt_index(number: int) -> bytes:
    return b',"_ng_attempt_index":%d' % number
