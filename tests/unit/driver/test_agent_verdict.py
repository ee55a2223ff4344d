"""What a verify answer means: which rewards are rewards."""

import pytest

from rollgym.common.errors import InvalidReward, RollgymError, VerifyError
from rollgym.driver.verdict import read_verdict


@pytest.mark.parametrize(
    ("body", "reward", "masked"),
    [
        pytest.param(b'{"reward": 0.5}', 0.5, False, id="number"),
        pytest.param(b'{"reward": -2}\n', -2.0, False, id="negative-integer"),
        pytest.param(b'{"reward": true}', 1.0, False, id="true"),
        pytest.param(b'{"reward": false, "mask_sample": null}', 0.0, False, id="false"),
        pytest.param(b'{"reward": 0.0, "mask_sample": true, "failure_kind": "env_lost"}', 0.0, True, id="masked"),
        pytest.param(b'{"reward": null, "mask_sample": true}', None, True, id="masked-without-a-number"),
    ],
)
def test_finite_numbers_are_rewards(body: bytes, reward: float | None, *, masked: bool) -> None:
    verdict = read_verdict(body)
    assert (verdict.reward, verdict.mask_sample) == (reward, masked)
    assert verdict.body == body.strip()


@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        pytest.param(b'{"reward": NaN}', InvalidReward, "nan", id="nan"),
        pytest.param(b'{"reward": -Infinity}', InvalidReward, "-inf", id="infinity"),
        pytest.param(b'{"reward": 1e999}', InvalidReward, "inf", id="overflow"),
        pytest.param(b'{"reward": "0.5"}', InvalidReward, "'0.5'", id="text"),
        pytest.param(b'{"reward": null}', InvalidReward, "no reward", id="null"),
        pytest.param(b"{}", InvalidReward, "no reward", id="missing"),
        pytest.param(b'{"reward": [1]}', InvalidReward, "finite number", id="list"),
        pytest.param(b"[]", VerifyError, "cannot be read", id="no-object"),
        pytest.param(b"<html>", VerifyError, "cannot be read", id="html"),
        pytest.param(b"", VerifyError, "cannot be read", id="empty"),
        pytest.param(b'{"reward": 1, "mask_sample": "no"}', VerifyError, "mask_sample", id="mask-no-boolean"),
    ],
)
def test_anything_else_is_an_error_that_says_what_was_given(body: bytes, kind: type[RollgymError], said: str) -> None:
    with pytest.raises(kind, match=said):
        read_verdict(body)


def test_an_answer_nested_beyond_reason_is_an_error_and_no_crash() -> None:
    with pytest.raises(VerifyError, match="cannot be read"):
        read_verdict(b'{"reward": ' + b"[" * 100_000)
