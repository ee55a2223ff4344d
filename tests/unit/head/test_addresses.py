"""Where the head says that it is: as configured, as bound, or as whoever asks reached it."""

from typing import Any

import pytest
from starlette.requests import Request

from rollgym.head.addresses import head_address
from rollgym.head.settings import HeadSettings


def asked(host_header: str | None, server: tuple[str, int] = ("172.18.0.2", 11000)) -> Request:
    headers = [] if host_header is None else [(b"host", host_header.encode())]
    scope: dict[str, Any] = {
        "type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": headers,
        "server": server, "scheme": "http",
    }  # fmt: skip
    return Request(scope)


@pytest.mark.parametrize(
    ("host", "advertised", "header", "expected"),
    [
        ("127.0.0.1", None, "evil.example:1", ("127.0.0.1", 11000)),
        ("0.0.0.0", "head.lan", "head:11000", ("head.lan", 11000)),
        ("0.0.0.0", None, "head:11000", ("head", 11000)),
        ("::", None, "[fd00::1]:12000", ("fd00::1", 12000)),
        ("0.0.0.0", None, "head.example", ("head.example", 80)),
    ],
    ids=["bound to one address", "told what to say", "compose service name", "IPv6", "default port"],
)
def test_the_address_that_is_told(host: str, advertised: str | None, header: str, expected: tuple[str, int]) -> None:
    settings = HeadSettings(host=host, advertise_host=advertised, database=":memory:")
    assert head_address(asked(header), settings) == expected


@pytest.mark.parametrize("header", [None, "a b", "x/../y", "<script>", "h:123456", "[zz]"])
def test_a_host_header_that_is_none_is_not_repeated(header: str | None) -> None:
    host, port = head_address(asked(header), HeadSettings(host="0.0.0.0", database=":memory:"))
    assert host != header
    assert host
    assert port == 11000


def test_a_free_picked_port_is_told_as_it_was_bound() -> None:
    settings = HeadSettings(port=0, database=":memory:")
    assert head_address(asked("127.0.0.1:40123", ("127.0.0.1", 40123)), settings) == ("127.0.0.1", 40123)
