"""Parallel coordinates of a sweep in a report."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from evidence_samples import inquiry, typical
from part_blocks import of_kind, part_of
from sweep_samples import (
    LEARNING_RATE,
    SPACE,
    minimised,
    none_succeeded,
    odd_values,
    swept,
    swept_evidence,
    trial,
)

from rlexp.reports.drawing.blocks import ParallelFigure, TrialLine
from rlexp.reports.evidence.runs import Evidence
from rlexp.reports.sections import parallel
from rlexp.reports.sections.parallel import ParallelCoordinatesSection


def figure(own: Evidence) -> ParallelFigure:
    """The only figure of the section."""
    found = of_kind(part_of(ParallelCoordinatesSection(), own), ParallelFigure)
    assert 1 == len(found)
    return found[0]


def thread(own: ParallelFigure, name: str) -> TrialLine:
    """The thread of a trial."""
    return next(t for t in own.threads if t.name == name)


@pytest.mark.parametrize("sample", [typical, none_succeeded])
def test_there_is_no_part_without_a_value(sample: Callable[[], Evidence]) -> None:
    """Plain runs, and sweeps without values, have no such section."""
    assert None is ParallelCoordinatesSection().part(inquiry(sample()))


def test_an_axis_for_each_parameter_and_one_for_the_value() -> None:
    """Ranges are those of the space; choices have names."""
    own = figure(swept()).coordinates
    assert (*SPACE.keys, "score") == tuple(c.title for c in own)
    assert (1e-5, 1e-1, True) == (own[0].low, own[0].high, own[0].log)
    assert (1.0, 20.0, False) == (own[1].low, own[1].high, own[1].log)
    assert ("linear", "mlp") == own[2].names
    assert (120.0, 499.0) == (own[4].low, own[4].high)


def test_a_thread_by_hand() -> None:
    """The line of the default has the index of its choice, a colour and the front position."""
    own = thread(figure(swept()), "default (0)")
    assert (3e-4, 10.0, 1.0, 1.0, 330.0) == own.values
    assert (330.0, True) == (own.value, own.marked)


def test_missing_values_interrupt_the_line() -> None:
    """A missing parameter or value is a gap of the line."""
    own = figure(swept())
    assert None is thread(own, "trial 2").values[3]
    assert (None, None) == (thread(own, "trial 3").values[-1], thread(own, "trial 3").value)
    assert "A line is interrupted where its trial does not have the parameter." == own.note


def test_winner_and_default_stand_in_front() -> None:
    """Only winner and default are marked."""
    marked = [t.name for t in figure(swept()).threads if t.marked]
    assert ["default (0)", "winner (5)"] == marked


def test_axes_extend_to_defaults_outside_their_ranges() -> None:
    """Axes extend to the default, and a text on a numeric axis is a gap."""
    own = figure(odd_values())
    assert ("linear", "mlp", "cnn") == own.coordinates[2].names
    assert 0.0 == own.coordinates[1].low
    assert (None, 0.0, 2.0, None) == thread(own, "default (0)").values[:4]


@pytest.mark.parametrize(("minimise", "kept"), [(False, 7), (True, 10)])
def test_of_many_trials_the_best_are_drawn(
    monkeypatch: pytest.MonkeyPatch, minimise: bool, kept: int
) -> None:
    """Winner and default are always drawn, and the note counts the trials left out."""
    monkeypatch.setattr(parallel, "MOST", 3)
    own = figure(minimised() if minimise else swept())
    expected = [0, 5, kept]
    assert expected == sorted(int(t.name.split()[1].strip("()")) for t in own.threads)
    assert own.note.startswith("The best 3 of 12 trials; 9 are not drawn.")


def test_zero_on_a_logarithmic_axis_is_a_gap() -> None:
    """Zero on a logarithmic axis is a gap and changes no end."""
    zero = trial(1, 5.0, 5.0, 5.0, parameters={LEARNING_RATE: 0.0})
    own = swept_evidence(trials=(zero,), selection=None)
    found = figure(replace(swept(), sweeps=(own,)))
    assert (1e-5, None) == (found.coordinates[0].low, found.threads[0].values[0])
