"""TLS contexts of clients: made once, and trusting nobody where no TLS is to be met."""

import ssl

from rollgym.common.tls import tls_context


def test_a_client_of_tls_verifies_with_the_authorities_and_shares_them() -> None:
    context = tls_context("https://a.example")
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert context.cert_store_stats()["x509_ca"] > 0
    assert tls_context("https://b.example") is context
    assert tls_context("http://a.example", "https://b.example") is context


def test_a_client_of_plain_http_trusts_nobody() -> None:
    context = tls_context("http://a.example")
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert context.cert_store_stats()["x509"] == 0
    assert tls_context("http://b.example", "http://c.example") is context
