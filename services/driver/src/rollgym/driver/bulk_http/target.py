"""A URL that is posted to: where it is, and what of a request's head is the same for each."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from importlib.metadata import version

from yarl import URL

from rollgym.driver.bulk_http.answer import ExchangeError


@dataclass(frozen=True, slots=True)
class Target:
    """`head` lacks the request's length, and the empty line that ends it. A login in the URL is in it as Basic auth."""

    host: str
    port: int
    secure: bool
    head: bytes

    @property
    def place(self) -> tuple[str, int, bool]:
        """What connections are kept by."""
        return self.host, self.port, self.secure

    @classmethod
    def of(cls, url: str) -> Target:
        """Raises ExchangeError, which does not repeat the URL: a login may be in it."""
        try:
            parsed = URL(url)
        except ValueError:
            raise ExchangeError("that is no URL") from None
        if parsed.scheme not in ("http", "https") or not parsed.raw_host or parsed.port is None:
            raise ExchangeError("that is no http or https URL with a host")
        lines = [
            f"POST {parsed.raw_path_qs} HTTP/1.1",
            f"Host: {parsed.host_port_subcomponent}",
            f"User-Agent: rollgym/{version('rollgym-driver')}",
            "Accept: application/json",
            "Accept-Encoding: identity",
            "Content-Type: application/json",
        ]
        if parsed.user is not None or parsed.password is not None:
            login = base64.b64encode(f"{parsed.user or ''}:{parsed.password or ''}".encode()).decode()
            lines.append(f"Authorization: Basic {login}")
        head = "".join(f"{line}\r\n" for line in lines).encode()
        return cls(parsed.raw_host, parsed.port, parsed.scheme == "https", head)
