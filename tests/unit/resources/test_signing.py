"""Credentials: what a token proves, and how a wrong one is told apart."""

import pytest

from rollgym.common.errors import SessionUnknown
from rollgym.resources.signing import SessionElsewhere, Signer, cookie_header, cookie_value, handle, new_session_id


def test_ids_have_128_random_bits_and_logs_show_a_part() -> None:
    ids = {new_session_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(len(bytes.fromhex(each)) == 16 for each in ids)
    assert len(handle(new_session_id())) == 8


def test_a_token_comes_back_as_its_session() -> None:
    signer = Signer()
    assert signer.session_id(signer.token("abc")) == "abc"


def test_the_key_from_settings_makes_the_signature() -> None:
    assert Signer("k" * 16, "i1").token("abc") == Signer("k" * 16, "i1").token("abc")
    assert Signer("k" * 16, "i1").token("abc") != Signer("x" * 16, "i1").token("abc")


@pytest.mark.parametrize("token", ["", "x", "a.b", "...", "é.b.c"], ids=repr)
def test_what_is_no_token(token: str) -> None:
    with pytest.raises((SessionUnknown, SessionElsewhere)):
        Signer().session_id(token)


def test_a_changed_id_or_signature_is_unknown() -> None:
    signer = Signer()
    instance, session_id, signature = signer.token(new_session_id()).split(".")
    for forged in (f"{instance}.{new_session_id()}.{signature}", f"{instance}.{session_id}.{signature[::-1]}x"):
        with pytest.raises(SessionUnknown):
            signer.session_id(forged)


def test_another_replicas_token_is_told_apart_from_a_forgery() -> None:
    with pytest.raises(SessionElsewhere) as caught:
        Signer("k" * 16).session_id(Signer("k" * 16).token("abc"))
    assert caught.value.status == 421


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("rollgym_session=a.b.c", "a.b.c"),
        ("x=1; rollgym_session=a.b.c; y=2", "a.b.c"),
        ('rollgym_session="a.b.c"', "a.b.c"),
        ("rollgym_session=old; rollgym_session=new", "new"),
        ("my_rollgym_session=a", None),
        ("", None),
    ],
)
def test_reading_the_cookie(header: str, value: str | None) -> None:
    assert cookie_value(header) == value


def test_the_cookie_is_kept_from_scripts() -> None:
    assert cookie_header("t") == "rollgym_session=t; Path=/; HttpOnly; SameSite=Lax"
