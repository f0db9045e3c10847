"""The origin of an experiment is recorded as JSON and read back."""

from typing import Any

import pytest

from rlexp.protocol.origin import Origin

ORIGIN = Origin(
    sweep="quick",
    trial=5,
    winner=True,
    selection="ab" * 32,
    fingerprint="cd" * 32,
    changes=("algorithm.gamma=0.9",),
)


def test_an_origin_is_read_as_it_was_written() -> None:
    """Reading is the inverse of writing, with and without a selection."""
    for origin in (
        ORIGIN,
        Origin(sweep="s", trial=0, winner=False, selection=None, fingerprint=""),
    ):
        assert origin == Origin.from_plain(origin.plain())


@pytest.mark.parametrize(
    "wrong", [{"trial": "5"}, {"sweep": 1}, {"changes": "x"}, {"fingerprint": None}]
)
def test_another_type_is_refused(wrong: dict[str, Any]) -> None:
    """A field of another type is an error, and not a wrong origin."""
    with pytest.raises(TypeError, match=f"origin.{next(iter(wrong))}"):
        Origin.from_plain({**ORIGIN.plain(), **wrong})


def test_an_origin_in_words_names_trial_and_changes() -> None:
    """The sentence has the sweep, the trial, its role and the changes."""
    assert "trial 5 of quick, its winner, with algorithm.gamma=0.9" == str(ORIGIN)
