"""Objectives that cannot be compared as the sweep would: one line each, before anything trains."""

from pathlib import Path

import pytest
from samples import write_tree
from sweeping import DEFINITION, refusal

FIXED = ("sweep.objective=spread", "sweep.allocation=fixed")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ("sweep.objective=spread", "sweep.allocation=racing"),
            "is no number of a single run, and sweep.allocation=racing compares run by run",
        ),
        ((*FIXED, "pruner=median"), "pruner=median gives up what returns little"),
        ((*FIXED, "seeds.selection=1"), "has no value on one selection seed"),
        (
            ("sweep.objective=[score,auc]", "sweep.allocation=racing"),
            "sweep.allocation=racing compares one number, and sweep.objective names 2",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(
    tmp_path: Path, words: tuple[str, ...], told: str
) -> None:
    """Whoever asks for it would get choices by another number than the one that is named."""
    folder = write_tree(tmp_path, {"sweeps/mine.yaml": DEFINITION})
    found = refusal(folder, "mine", *words)
    assert told in found
    assert "\n" not in found
