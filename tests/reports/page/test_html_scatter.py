"""Scatter plots of the page: positions of the points, and the data for the script."""

import json
import re
from dataclasses import replace
from html import unescape

import pytest
from study_samples import HOSTILE, hostile_sweep, one_trial, sweep
from trial_samples import many_coordinates

from rlexp.reports.drawing.blocks import (
    Axis,
    FigureLine,
    PointSeries,
    ReportDocument,
    ScatterFigure,
    SectionContent,
)
from rlexp.reports.drawing.palette import FURTHER_SHAPES, SHAPES, Style
from rlexp.reports.page.html import PATHS, line_break_pieces, render_html
from rlexp.reports.page.point_plots import ScatterPlot, scatter_plot

LOOK = {"complete": Style(0, "disc"), "pruned": Style(1, "cross"), "best": Style(2)}
UNIT = Axis(title="x", low=0, high=4)
SHARE = Axis(title="y", low=0, high=1)
NAMES = ("trial 0", "trial 1")
CLOUD = PointSeries(label="complete", x=(1, 2), y=(0.25, 1), names=NAMES)
FIGURE = ScatterFigure(name="f", title="f", x=UNIT, y=SHARE, clouds=(CLOUD,))


def plot_with(**changes: object) -> ScatterPlot:
    """The plot of the figure with these changes."""
    return scatter_plot(replace(FIGURE, **changes), LOOK)  # type: ignore[arg-type]


def script_data(page: str) -> dict[str, object]:
    """The data for the script of a page."""
    match = re.search(r'<script type="application/json" id="numbers">(.*?)</script>', page)
    assert match is not None
    data: dict[str, object] = json.loads(unescape(match[1]))
    return data


def page_of(*figures: ScatterFigure) -> str:
    """A page of these figures."""
    part = SectionContent(name="p", title="P", blocks=figures)
    return render_html(
        ReportDocument(title="t", subtitle="", labels=(), parts=(part,), version="0.1.0")
    )


def test_points_are_placed_in_per_cent() -> None:
    """Points have positions from the left and the top, and the shape of their label."""
    (cloud,) = plot_with().clouds
    assert ([(25, 75), (50, 0)], "disc", 0) == (cloud.at, cloud.shape, cloud.crowd)


def test_curves_lie_behind_and_marks_have_names() -> None:
    """Step lines keep their height until the next point, and marks have names."""
    line = FigureLine(label="best", x=(0, 2, 4), y=(0.25, 0.5, 1), steps=True)
    plot = plot_with(lines=(line,), marks=(("solved", 0.75),))
    expected = "M0 7500L5000 7500L5000 5000L10000 5000L10000 0"
    assert [("line", expected)] == [(path.kind, path.d) for path in plot.paths]
    assert [("solved 0.75", 25)] == plot.marks
    assert (("complete", "best"), ("complete",)) == (plot.labels, plot.dotted)


@pytest.mark.parametrize(("count", "expected"), [(100, 0), (101, 1), (400, 1), (401, 2)])
def test_many_points_are_fainter(count: int, expected: int) -> None:
    """Many points are drawn fainter, so that those behind stay visible."""
    series = PointSeries(
        label="complete", x=(1.0,) * count, y=(0.5,) * count, names=("a",) * count
    )
    assert expected == plot_with(clouds=(series,)).clouds[0].crowd


def test_ticks_with_names_have_no_numbers() -> None:
    """Few short names are horizontal; many or long names are vertical."""
    assert ([], False) == (
        list(plot_with(ticks=("a", "b", "c")).x_ticks),
        plot_with(ticks=("a",)).upright,
    )
    assert plot_with(ticks=tuple("abcdefg")).upright
    assert plot_with(ticks=("a" * 25,)).upright
    assert ["0", "1", "2", "3", "4"] == [tick.text for tick in plot_with().x_ticks]


def test_the_script_gets_drawn_points_only() -> None:
    """The data for the script has names, values and shapes of the points inside the axes."""
    cloud = replace(CLOUD, y=(float("nan"), 1 / 3))
    data = plot_with(clouds=(cloud,)).data
    assert data is not None
    expected = {"label": 0, "shape": "disc", "x": [2], "y": [0.333333], "named": ["trial 1"]}
    assert [expected] == data["clouds"]
    assert "1 point is not shown" in page_of(replace(FIGURE, clouds=(cloud,)))


def test_each_name_is_in_the_data_once() -> None:
    """Figures of the same trials refer to shared names by number."""
    data = script_data(
        page_of(FIGURE, replace(FIGURE, name="g", clouds=(replace(CLOUD, names=NAMES[::-1]),)))
    )
    figures = data["figures"]
    assert isinstance(figures, dict)
    assert list(NAMES) == data["names"]
    assert [[0, 1], [1, 0]] == [figures[k]["clouds"][0]["named"] for k in "fg"]


def test_shapes_are_drawn_once() -> None:
    """Every shape has one path, to which points refer."""
    assert {*SHAPES.values(), *FURTHER_SHAPES} == PATHS.keys()
    page = render_html(sweep())
    assert 1 == page.count('<path id="s-disc"')
    assert 7 * 40 - 10 == page.count("<use href=") - page.count('"swatch cloud')
    assert "<use" not in render_html(replace(sweep(), parts=()))


def test_keys_show_points_or_lines() -> None:
    """Legend entries are points or lines as in the figure."""
    page = render_html(sweep())
    keys = re.findall(r'<svg class="swatch (cloud \w+|c\d).*?<bdi>(.*?)</bdi>', page)
    page_keys, figure_keys = keys[:6], keys[6:11]
    assert ("c1", "default") == (page_keys[1][0], page_keys[1][1])
    assert ["cloud disc", "cloud cross", "cloud triangle", "cloud diamond"] == [
        look for look, name in figure_keys if name != "best so far"
    ]
    assert "c5" == {name: look for look, name in figure_keys}["best so far"]


def test_an_empty_figure_says_so() -> None:
    """A figure without points says so; a single trial is drawn."""
    assert None is plot_with(clouds=()).data
    assert 1 == page_of(replace(FIGURE, clouds=())).count("There is no value to draw.")
    assert "There is no value to draw." not in render_html(one_trial())


def test_hostile_names_are_words() -> None:
    """Hostile names are text in attributes, on the page, and in the data."""
    page = render_html(hostile_sweep())
    assert "<script>alert" not in page
    assert "<img" not in page
    names = script_data(page)["names"]
    assert isinstance(names, list)
    assert {f"{HOSTILE[k % 6]} {k}" for k in range(24)} == set(names)


def test_names_break_where_words_end() -> None:
    """Names may break after dots, slashes and underscores, and lose no character."""
    expected = ["algorithm.", "policy_", "kwargs.", "net/", "arch"]
    assert expected == line_break_pieces("algorithm.policy_kwargs.net/arch")
    assert ["__", "a..", "b"] == line_break_pieces("__a..b")
    assert [] == line_break_pieces("")


def test_a_thousand_trials_stay_light() -> None:
    """A page with 1,000 trials over twelve parameters takes less than 1.2 megabytes."""
    page = render_html(many_coordinates(1000))
    assert 1000 * 13 > page.count("<use href=") > 1000 * 12
    assert len(page.encode()) < 1_200_000


def test_screen_readers_get_a_description() -> None:
    """The description has the number of points of each kind."""
    page = render_html(sweep())
    expected = (
        "mean return over environment steps of the search; 30 complete, 6 pruned, 3 failed, "
    )
    assert f'aria-label="Optimisation history: {expected}1 default"' in page
