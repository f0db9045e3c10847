"""The rows of labels fit on one screen, and their marks are where the numbers are."""

from io import StringIO

import pytest
from rich.console import Console

from rlexp.console.score_rows import MOST_ROWS, ScoreRow, ScoreRows, show_scores
from rlexp.reports.drawing.blocks import Axis, IntervalFigure, IntervalMark, Panel
from rlexp.reports.drawing.palette import Style
from rlexp.reports.page.intervals import forest_plot
from rlexp.stats.interval import Interval


def estimate(value: float, low: float | None, high: float | None, n: int = 4) -> Interval:
    """An estimate with its interval, or without one."""
    return Interval(
        estimate=value,
        low=low,
        high=high,
        level=0.95,
        method="percentile bootstrap",
        repetitions=1000,
        n=n,
        seed=7,
        reason=None if low is not None else f"too few runs for an interval (n = {n})",
    )


def row(label: str, value: float = 50.0) -> ScoreRow:
    """A label with an interval from 0 to 100, and a run at each end."""
    return ScoreRow(
        label=label, runs="2 of 2", estimate=estimate(value, 0.0, 100.0), scores=(0.0, 100.0)
    )


def printed(*rows: ScoreRow, width: int = 80, colour: bool = False) -> str:
    """The rows on a terminal of this width."""
    out = Console(
        highlight=False,
        file=StringIO(),
        force_terminal=True,
        width=width,
        color_system="standard" if colour else None,
    )
    show_scores(
        out,
        ScoreRows(
            title="CartPole-v1", statistic="IQM", rows=rows, labels=[row.label for row in rows]
        ),
        "rlexp X --full",
    )
    return out.file.getvalue()  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("name", ["ppo", "a_very_long_label_of_an_experiment/" * 3])
def test_no_line_is_wider_than_the_terminal(name: str, width: int) -> None:
    """With a short or a very long label, every line fits, and the chart is shown."""
    text = printed(row(name), row("a2c"), width=width)
    assert max(map(len, text.splitlines())) <= width
    assert "━" in text
    assert name[:5] in text


def test_marks_are_where_the_numbers_are() -> None:
    """The runs are at the ends of the interval, and the estimate is in its middle."""
    line = printed(row("ppo")).splitlines()[1]
    chart = line[line.index("•") :]
    assert ("•", "•", len(chart) // 2) == (chart[0], chart[-1], chart.index("●"))
    assert set(chart[1:-1]) == {"━", "●"}


def test_a_greater_score_is_further_to_the_right() -> None:
    """The labels have a common axis."""
    _, low, high, *_ = printed(row("a", 20.0), row("b", 80.0)).splitlines()
    assert low.index("●") < high.index("●")


def test_the_axis_is_that_of_the_page() -> None:
    """Where the axis of the page begins at zero, the axis of the terminal does, too."""
    rows = [("a", 10.0, 9.0, 12.0), ("b", 160.0, 120.0, 203.0)]
    table = printed(
        *(
            ScoreRow(label=name, runs="6 of 6", estimate=estimate(value, low, high, 6))
            for name, value, low, high in rows
        )
    )
    marks = [IntervalMark(label=n, interval=estimate(v, a, b, 6)) for n, v, a, b in rows]
    panel = Panel(title="IQM", axis=Axis(title="return"), marks=tuple(marks))
    figure = IntervalFigure(name="iqm", title="", panels=(panel,))
    ticks = forest_plot(figure, {name: Style(0) for name, *_ in rows}).panels[0].ticks
    assert "0" == ticks[0].text
    assert "0" == table.splitlines()[0].split()[3]


def test_a_hundred_labels_are_cut() -> None:
    """Of a hundred labels the first are shown, and the command for all of them is named."""
    text = printed(*(row(f"label_{number}") for number in range(100)))
    assert text.count("2 of 2") == MOST_ROWS
    assert f"and {100 - MOST_ROWS} more labels: rlexp X --full" in text


def test_a_single_run_has_a_mark_and_no_interval() -> None:
    """One run gives a mark, a dash for the interval, and the reason."""
    text = printed(ScoreRow(label="ppo", runs="1 of 1", estimate=estimate(5.0, None, None, 1)))
    assert "5.00 [—]" in text
    assert "[—] Too few runs for an interval (n = 1)." in text
    assert "━" not in text
    assert "●" in text


def test_a_label_without_a_score_has_a_dash() -> None:
    """A label without a score is named with its runs, beside one that has scores."""
    none = ScoreRow(label="a2c", runs="0 of 4", estimate=None)
    assert "a2c          0 of 4  —\n" in printed(row("ppo"), none)
    assert "0 of 4  —\n" in printed(none)


def test_level_method_and_seed_are_named() -> None:
    """The footnote has the level, the method and the seed of the intervals."""
    assert "95 % interval: percentile bootstrap, seed 7." in printed(row("ppo"))


def test_colour_is_never_alone() -> None:
    """Without its colours, a coloured table has the same characters as one without any."""
    from rich.text import Text

    coloured = printed(row("ppo"), row("a2c"), colour=True)
    assert "\x1b[" in coloured
    assert Text.from_ansi(coloured).plain.split() == printed(row("ppo"), row("a2c")).split()


def test_labels_that_would_look_alike_stay_different() -> None:
    """Where a chart would shorten two labels to the same text, the chart is left out."""
    names = [f"{'a' * 30}{digit}{'b' * 30}" for digit in "12"]
    text = printed(*map(row, names))
    _, first, second, *_ = text.splitlines()
    assert first.split()[0] != second.split()[0]
    assert "━" not in text
