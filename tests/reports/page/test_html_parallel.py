"""Parallel coordinates of the page: trials as paths, in the colour of their value."""

import re
from dataclasses import replace

import pytest
from study_samples import HOSTILE, hostile_sweep, one_trial, sweep

from rlexp.reports.drawing.blocks import Axis, Coordinate, ParallelFigure, TrialLine
from rlexp.reports.page.html import render_html
from rlexp.reports.page.point_plots import ParallelPlot, parallel_plot

UNIT = Coordinate(title="unit", low=0, high=4)
CHOICE = Coordinate(title="choice", names=("tanh", "a_name_of_many_letters"))


def thread(*values: float | None, value: float | None = 0, name: str = "trial 1") -> TrialLine:
    """A trial with these values on the coordinates."""
    return TrialLine(name=name, values=values, value=value)


def marked_thread(*values: float | None, name: str = "default") -> TrialLine:
    """A marked trial, which is drawn in front."""
    return replace(thread(*values, name=name), marked=True)


def plot_of(
    *threads: TrialLine, coordinates: tuple[Coordinate, ...] = (UNIT, UNIT, UNIT)
) -> ParallelPlot:
    """The plot of trials over these coordinates, coloured from 0 to 1."""
    colour = Axis(title="return", low=0, high=1)
    return parallel_plot(
        ParallelFigure(
            name="f", title="f", coordinates=coordinates, threads=threads, colour=colour
        )
    )


def test_a_thread_goes_from_coordinate_to_coordinate() -> None:
    """Coordinates are two units apart, and the figure is a thousand units high."""
    plot = plot_of(thread(0, 2, 4))
    assert [("v0", "M1 1000 3 500 5 0", "")] == [(b.look, b.d, b.dots) for b in plot.bundles]
    assert "0 0 6 1000" == plot.box
    assert [1, 3, 5] == [column.x for column in plot.columns]
    assert [16.667, 50, 83.333] == [column.at for column in plot.columns]


def test_threads_of_a_shade_are_one_path() -> None:
    """Grey trials are drawn first, then one path for each shade."""
    plot = plot_of(
        thread(0, 0, 0, value=1),
        thread(4, 4, 4),
        thread(2, 2, 2, value=0.01),
        thread(1, 1, 1, value=None),
    )
    assert [
        ("grey", "M1 750 3 750 5 750"),
        ("v0", "M1 0 3 0 5 0M1 500 3 500 5 500"),
        ("v11", "M1 1000 3 1000 5 1000"),
    ] == [(bundle.look, bundle.d) for bundle in plot.bundles]
    assert plot.grey
    assert plot.notes == ("1 of 4 has no value (grey).",)


def test_a_gap_is_no_line() -> None:
    """A value between two gaps is a dot."""
    (bundle,) = plot_of(thread(0, None, 4), thread(4, 4, None)).bundles
    assert ("M1 0 3 0", "M1 1000h0M5 0h0") == (bundle.d, bundle.dots)


def test_marked_threads_stand_in_front_with_their_names() -> None:
    """Each marked trial has a dash pattern and a line to its name."""
    plot = plot_of(
        marked_thread(0, 0, 4), marked_thread(0, 0, 4, name="a winner with a long name")
    )
    assert [] == plot.bundles
    assert [("a winner w… name", 0, 0, "M5 0L6 0"), ("default", 1, 5.5, "M5 0L6 55")] == [
        (trial.name, trial.dash, trial.name_at, trial.leader) for trial in plot.marked
    ]
    assert "a winner with a long name" == plot.marked[0].full_name


def test_a_name_without_an_end_has_no_leader() -> None:
    """A trial that ends before the last coordinate has its name at its last height."""
    (trial,) = plot_of(marked_thread(0, 3, None)).marked
    assert ("", 25) == (trial.leader, trial.name_at)


@pytest.mark.parametrize(("count", "expected"), [(50, 0), (51, 1), (300, 1), (301, 2)])
def test_many_threads_are_fainter(count: int, expected: int) -> None:
    """Many trials are drawn fainter, so that those behind stay visible."""
    assert expected == plot_of(*[thread(0, 1, 2)] * count).crowd


def test_choices_are_ticks_of_few_letters() -> None:
    """Long names of choices are shortened; the tooltip has the full name."""
    plot = plot_of(thread(0, 1), coordinates=(UNIT, CHOICE))
    assert [(75, "tanh", "tanh"), (25, "a_name_…ers", "a_name_of_many_letters")] == [
        *plot.columns[1].ticks
    ]


def test_the_script_gets_all_trials() -> None:
    """The data for the script lists trials in drawing order, without values outside the axes."""
    data = plot_of(
        thread(0, 2 / 3, None, value=1 / 3), thread(1, 1, float("inf"), value=None, name="grey")
    ).data
    assert data is not None
    assert (["grey", "trial 1"], [None, 4]) == (data["named"], data["shades"])
    assert [[1, 1, None], [0, 0.66667, None]] == data["threads"]
    assert [None, 0.33333] == data["values"]
    assert ("unit", 0, 4) == tuple(data["coordinates"][0][k] for k in ("title", "low", "high"))


def test_the_key_has_every_shade_and_its_ends() -> None:
    """The colour key has every shade, and grey if a trial has no value."""
    page = render_html(sweep())
    key = page.split('<div class="shades rising">')[1].split("</div></div>")[0]
    assert [str(k) for k in range(12)] == re.findall(r'class="v(\d+)"', key)
    assert ["41", "499", "no value"] == re.findall(r"<i>(.*?)</i>", key)
    assert "<bdi>mean return</bdi>" in key
    assert "no value" not in render_html(one_trial())


def test_an_empty_figure_says_so() -> None:
    """A figure without trials, coordinates or values says so."""
    for plot in (plot_of(), plot_of(thread(), coordinates=()), plot_of(thread(None, None, None))):
        assert (None, [], None) == (plot.data, list(plot.bundles), plot.ends)


def test_screen_readers_get_a_description() -> None:
    """The description has the number of trials, coordinates, colour and marked trials."""
    expected = "f: 1 lines over unit, unit, unit, coloured by return; default"
    assert expected == plot_of(marked_thread(0, 1, 2)).described


def test_hostile_names_are_words() -> None:
    """Hostile names of coordinates, choices and trials are shown as text."""
    page = render_html(hostile_sweep())
    figure = page.split('id="figure-threads"')[1].split("</figure>")[0]
    assert "<script" not in figure
    assert "<img" not in figure
    assert HOSTILE[5].replace("&", "&amp;") in figure
