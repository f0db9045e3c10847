"""The hypervolume over the trials of a sweep."""

import pytest

from rlexp.engine import front_choice
from rlexp.engine.front_choice import hypervolumes
from rlexp.stats.pareto import hypervolume

REFERENCE = (0.0, 0.0)
Points = list[tuple[float, ...]]


def test_trials_that_are_not_on_the_front_repeat_its_volume(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The volume after each trial is that of all trials up to it; only a changed front is measured again."""
    merits = [None, (1.0, 3.0), (1.0, 1.0), None, (1.0, 3.0), (2.0, 2.0), (4.0, 4.0), (3.0, 3.0)]
    measured: list[Points] = []

    def counted(front: Points, reference: tuple[float, ...]) -> float:
        measured.append(front)
        return hypervolume(front, reference)

    monkeypatch.setattr(front_choice, "searched_merits", lambda *_: merits)
    monkeypatch.setattr(front_choice, "hypervolume", counted)
    so_far = [[m for m in merits[: n + 1] if m is not None] for n in range(len(merits))]
    expected = [hypervolume(points, REFERENCE) if points else None for points in so_far]
    assert tuple(expected) == hypervolumes((), None, REFERENCE)  # type: ignore[arg-type]
    assert [[(1.0, 3.0)], [(1.0, 3.0), (2.0, 2.0)], [(4.0, 4.0)]] == measured
