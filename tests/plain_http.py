"""Plain HTTP: what tests give their httpx clients as `verify`.

Without it each client, and each `httpx.get`, reads every certificate authority of this machine: 50 ms of CPU.
"""

import ssl

PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Trusts nobody, and is never asked to."""
