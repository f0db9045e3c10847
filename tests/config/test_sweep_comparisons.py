"""Objectives that the allocation or the pruner cannot compare: refused in one line."""

from pathlib import Path

import pytest
from samples import write_tree
from sweeping import DEFINITION, refusal

FIXED = ("sweep.objective=spread", "sweep.allocation=fixed")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ("sweep.objective=spread", "sweep.allocation=racing"),
            "cannot be computed from a single run, and sweep.allocation=racing compares single runs",
        ),
        ((*FIXED, "pruner=median"), "pruner=median ends trials with low returns"),
        ((*FIXED, "seeds.selection=1"), "cannot be computed on one selection seed"),
        (
            ("sweep.objective=[score,auc]", "sweep.allocation=racing"),
            "sweep.allocation=racing compares one objective, and sweep.objective has 2",
        ),
    ],
)
def test_incomparable_objectives_are_refused(
    tmp_path: Path, overrides: tuple[str, ...], message: str
) -> None:
    """An objective that the allocation or the pruner cannot compare is refused in one line."""
    folder = write_tree(tmp_path, {"sweeps/mine.yaml": DEFINITION})
    result = refusal(folder, "mine", *overrides)
    assert message in result
    assert "\n" not in result
