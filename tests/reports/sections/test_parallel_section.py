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


def figure(sample: Evidence) -> ParallelFigure:
    """The only figure of the section."""
    figures = of_kind(part_of(ParallelCoordinatesSection(), sample), ParallelFigure)
    assert 1 == len(figures)
    return figures[0]


def thread(parallel_figure: ParallelFigure, name: str) -> TrialLine:
    """The thread of a trial."""
    return next(t for t in parallel_figure.threads if t.name == name)


@pytest.mark.parametrize("sample", [typical, none_succeeded])
def test_there_is_no_part_without_a_value(sample: Callable[[], Evidence]) -> None:
    """Plain runs, and sweeps without values, have no parallel coordinates."""
    assert None is ParallelCoordinatesSection().part(inquiry(sample()))


def test_an_axis_for_each_parameter_and_one_for_the_value() -> None:
    """Axes have the ranges of the search space, and choices have names."""
    coordinates = figure(swept()).coordinates
    assert (*SPACE.keys, "score") == tuple(c.title for c in coordinates)
    assert (1e-5, 1e-1, True) == (coordinates[0].low, coordinates[0].high, coordinates[0].log)
    assert (1.0, 20.0, False) == (coordinates[1].low, coordinates[1].high, coordinates[1].log)
    assert ("linear", "mlp") == coordinates[2].names
    assert (120.0, 499.0) == (coordinates[4].low, coordinates[4].high)


def test_a_thread_by_hand() -> None:
    """The line of the default has the index of its choice, a colour and the front position."""
    default = thread(figure(swept()), "default (trial 0)")
    assert (3e-4, 10.0, 1.0, 1.0, 330.0) == default.values
    assert (330.0, True) == (default.value, default.marked)


def test_missing_values_interrupt_the_line() -> None:
    """A missing parameter or value is a gap of the line."""
    parallel_figure = figure(swept())
    assert None is thread(parallel_figure, "trial 2").values[3]
    assert (None, None) == (
        thread(parallel_figure, "trial 3").values[-1],
        thread(parallel_figure, "trial 3").value,
    )
    assert (
        "A line is interrupted where its trial does not have the parameter."
        == parallel_figure.note
    )


def test_winner_and_default_stand_in_front() -> None:
    """Winner and default are marked, and no other trial."""
    marked_names = [t.name for t in figure(swept()).threads if t.marked]
    assert ["default (trial 0)", "tuned (trial 5)"] == marked_names


def test_axes_extend_to_defaults_outside_their_ranges() -> None:
    """Axes extend to the default, and a text on a numeric axis is a gap."""
    parallel_figure = figure(odd_values())
    assert ("linear", "mlp", "cnn") == parallel_figure.coordinates[2].names
    assert 0.0 == parallel_figure.coordinates[1].low
    assert (None, 0.0, 2.0, None) == thread(parallel_figure, "default (trial 0)").values[:4]


@pytest.mark.parametrize(("minimise", "third_trial"), [(False, 7), (True, 10)])
def test_of_many_trials_the_best_are_drawn(
    monkeypatch: pytest.MonkeyPatch, minimise: bool, third_trial: int
) -> None:
    """Winner and default are always drawn, and the note counts the trials left out."""
    monkeypatch.setattr(parallel, "MOST", 3)
    parallel_figure = figure(minimised() if minimise else swept())
    expected = [0, 5, third_trial]
    assert expected == sorted(int(t.name.split()[-1].strip("()")) for t in parallel_figure.threads)
    assert parallel_figure.note.startswith("The best 3 of 12 trials; 9 are not drawn.")


def test_zero_on_a_logarithmic_axis_is_a_gap() -> None:
    """Zero on a logarithmic axis is a gap and changes no end."""
    zero = trial(1, 5.0, 5.0, 5.0, parameters={LEARNING_RATE: 0.0})
    sweep = swept_evidence(trials=(zero,), selection=None)
    parallel_figure = figure(replace(swept(), sweeps=(sweep,)))
    assert (1e-5, None) == (
        parallel_figure.coordinates[0].low,
        parallel_figure.threads[0].values[0],
    )
