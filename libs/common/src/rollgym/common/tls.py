"""TLS for the clients of control calls: one context a process, and none that trusts anybody where there is no TLS.

Making a context that trusts this machine's authorities reads every one of them: 50 ms of CPU, in which no loop turns.
"""

from __future__ import annotations

import ssl
from functools import cache

import httpx


def tls_context(*urls: str) -> ssl.SSLContext:
    """What httpx's `verify` takes for a client of these URLs."""
    return _trusting_authorities() if any(url.startswith("https:") for url in urls) else _trusting_nobody()


@cache
def _trusting_authorities() -> ssl.SSLContext:
    return httpx.create_ssl_context(trust_env=False)


@cache
def _trusting_nobody() -> ssl.SSLContext:
    """For plain HTTP, where httpx wants a context as well; should TLS be met all the same, no certificate will do."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
