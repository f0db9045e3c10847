"""Bands of learning curves in a report."""

import pytest
from curve_figures import aggregate_line, figures
from curve_samples import run
from evidence_samples import SAMPLES, evidence

from rlexp.records.events import Failure


def test_the_band_narrows_with_agreement_and_holds_the_line() -> None:
    """A band surrounds its line, and is narrower where runs agree."""
    distant_runs = [run([100.0 + 20 * k, 200.0 + 20 * k], k) for k in range(5)]
    close_runs = [run([100.0 + k, 200.0 + k], k, label="a2c") for k in range(5)]
    figure = figures(evidence([*distant_runs, *close_runs]))[0]
    width = {}
    for label in ("ppo", "a2c"):
        line = aggregate_line(figure, label)
        low, high = line.low, line.high
        assert low is not None
        assert high is not None
        assert low[0] is not None
        assert high[0] is not None
        assert line.y[0] is not None
        assert low[0] < line.y[0] < high[0]
        width[label] = high[0] - low[0]
    assert width["ppo"] == pytest.approx(20 * width["a2c"])


def test_the_band_ends_where_returns_do() -> None:
    """A band is clipped to the least and the greatest possible return."""
    heights = ([2.0, 498.0], [2.0, 500.0], [90.0, 300.0])
    line = aggregate_line(figures(evidence(run(h, seed) for seed, h in enumerate(heights)))[0])
    assert line.low is not None
    assert line.high is not None
    assert (1.0, 500.0) == (line.low[0], line.high[1])


def test_a_wrongly_declared_end_cuts_nothing() -> None:
    """A greatest possible return that runs exceed does not clip the band."""
    line = aggregate_line(figures(evidence(run([600.0 + k, 100.0], k) for k in range(3)))[0])
    assert line.high is not None
    assert line.high[0] is not None
    assert line.high[0] > 602.0


def test_two_runs_have_no_band() -> None:
    """Fewer than three runs have a line without a band, and the note says so."""
    members = [
        run([10.0, 20.0, 30.0], 0),
        run([20.0, 30.0, 40.0], 1),
        run([30.0, 70.0], 2, failure=Failure.NAN),
    ]
    figure = figures(evidence(members))[0]
    line = aggregate_line(figure)
    assert line.low is not None
    assert [False, False, True] == [end is None for end in line.low]
    assert figure.note.endswith("then 2; no band where fewer than 3 runs are left.")
    figure_of_two = figures(evidence(members[:2]))[0]
    assert (None, None) == (aggregate_line(figure_of_two).low, aggregate_line(figure_of_two).high)
    assert "no band where fewer than 3 runs" in figure_of_two.note


def test_one_run_has_no_band() -> None:
    """A single run has a line without a band, and the note has the reason."""
    figure = figures(SAMPLES["one_run"]())[0]
    assert (aggregate_line(figure).low, aggregate_line(figure).high) == (None, None)
    assert figure.note.startswith("ppo: 1 of 1 run; no band: one run ")
