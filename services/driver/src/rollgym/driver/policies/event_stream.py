"""Server-sent events of a streamed answer: bytes in, the data of each event out."""

from collections.abc import AsyncIterator

import aiohttp

from rollgym.common.errors import ModelError

DONE = b"[DONE]"


async def events(response: aiohttp.ClientResponse, limit_bytes: int) -> AsyncIterator[bytes]:
    """The `data` of each event until the stream ends or says `[DONE]`. Raises ModelError past `limit_bytes`."""
    received = 0
    pending = b""
    data: list[bytes] = []
    async for chunk in response.content.iter_any():
        received += len(chunk)
        if received > limit_bytes:
            raise ModelError(f"the streamed answer is larger than {limit_bytes} bytes", limit_bytes=limit_bytes)
        *lines, pending = (pending + chunk).split(b"\n")
        for line in (raw.removesuffix(b"\r") for raw in lines):
            if line.startswith(b"data:"):
                data.append(line[5:].removeprefix(b" "))
            elif not line and data:
                event, data = b"\n".join(data), []
                if event.strip() == DONE:
                    return
                yield event
    if pending.startswith(b"data:"):
        data.append(pending[5:].strip())
    if data and b"\n".join(data).strip() != DONE:
        yield b"\n".join(data)
