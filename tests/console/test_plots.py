"""Curves with bands are drawn on terminals of any width, in colour and without."""

import io
import re
from collections.abc import Mapping, Sequence

import pytest
from rich.console import Console as RichConsole

from rlexp.console.plots import COLOURS, LETTERS, show_plot
from rlexp.reports.drawing.blocks import Axis, FigureLine, LineFigure

STEPS = (1000.0, 2000.0, 3000.0, 4000.0, 5000.0)
CODES = re.compile(r"\x1b\[[0-9;]*m")
"""Codes of colours."""


def line(
    label: str, y: Sequence[float | None], band: float | None = None, *, faint: bool = False
) -> FigureLine:
    """A line with a band of this half-width, or without a band."""
    ends = [
        None if band is None else tuple(None if v is None else v + sign * band for v in y)
        for sign in (-1, 1)
    ]
    x = STEPS[: len(y)]
    return FigureLine(label=label, x=x, y=tuple(y), low=ends[0], high=ends[1], faint=faint)


def figure(*lines: FigureLine, marks: Sequence[tuple[str, float]] = ()) -> LineFigure:
    """A figure of returns over steps."""
    return LineFigure(
        name="curves",
        title="CartPole-v1",
        x=Axis(title="environment steps", low=0.0),
        y=Axis(title="mean return"),
        lines=lines,
        marks=tuple(marks),
    )


def drawn(
    shown: LineFigure,
    notes: Mapping[str, str] | None = None,
    *,
    width: int = 80,
    height: int = 6,
    colours: bool = False,
    terminal: bool = True,
) -> str:
    """The plot as it is printed."""
    file = io.StringIO()
    out = RichConsole(
        file=file,
        width=width,
        force_terminal=terminal,
        no_color=not colours,
        color_system="standard" if colours else None,
        _environ={},
    )
    show_plot(out, shown, notes or {}, height)
    return file.getvalue()


def test_a_label_alone_is_a_line_of_dots_in_its_band() -> None:
    """The text of a plot of one label at 80 columns."""
    text = drawn(figure(line("ppo", [0, 100, 300, 400, 450], 50)), {"ppo": "ppo: 5 of 5 runs."})
    assert ONE_LABEL == text.splitlines()


def test_labels_without_colour_have_letters() -> None:
    """Without colour each label is a letter, and labels at one place take turns."""
    lines = (line("ppo", [0, 100, 200, 300, 400]), line("a2c", [0, 0, 200, 250, 250]))
    text = drawn(figure(*lines), {"ppo": "ppo: 3 of 3 runs.", "a2c": "a2c: 3 of 3 runs."})
    assert TWO_LABELS == text.splitlines()


def test_labels_in_colour_are_lines_of_dots_in_their_colours() -> None:
    """In colour there are no letters; the codes of two colours tell the lines apart."""
    lines = (line("ppo", [0, 100, 200, 300, 400]), line("a2c", [0, 0, 200, 250, 250]))
    notes = {"ppo": "ppo: 3 of 3 runs.", "a2c": "a2c: 3 of 3 runs."}
    text = drawn(figure(*lines), notes, colours=True)
    assert {"\x1b[94m", "\x1b[31m"} <= set(CODES.findall(text))
    rows = CODES.sub("", text).splitlines()
    assert not any(set("ab") & set(row.partition("│")[2]) for row in rows[1:7])
    assert ["━ ppo: 3 of 3 runs.", "━ a2c: 3 of 3 runs."] == rows[-2:]


@pytest.mark.parametrize("width", [1, 20, 40, 79, 80, 200])
@pytest.mark.parametrize("terminal", [True, False])
def test_a_plot_fits_its_terminal(width: int, terminal: bool) -> None:
    """Rows are as wide as the terminal, from 40 to 110 columns; in a pipe they have 80."""
    shown = figure(line("ppo", [0, 100, 300, 400, 450], 50))
    rows = CODES.sub("", drawn(shown, width=width, terminal=terminal)).splitlines()
    allowed = min(max(width, 40), 110) if terminal else 80
    assert allowed == max(map(len, rows))


def test_gaps_are_left_empty_and_lone_points_are_drawn() -> None:
    """A missing value breaks the line; a point between two gaps is drawn."""
    rows = drawn(figure(line("ppo", [0, None, 300, None, 450])), height=4).splitlines()
    dots = [len(re.findall(r"[⠁-⣿]", row)) for row in rows[1:5]]
    assert 3 == sum(dots)


@pytest.mark.parametrize("values", [[], [None, None]])
def test_a_figure_without_values_says_so(values: list[float | None]) -> None:
    """Without any value there is one line in place of the axes."""
    assert ["CartPole-v1: mean return", "nothing to show"] == drawn(
        figure(line("ppo", values))
    ).splitlines()


def test_single_runs_are_left_out() -> None:
    """Faint lines change nothing: a terminal has too few dots for them."""
    aggregate = line("ppo", [0, 100, 300, 400, 450])
    single = line("ppo", [0, 900, 0, 900, 0], faint=True)
    assert drawn(figure(aggregate)) == drawn(figure(single, aggregate))


def test_a_marked_height_is_in_the_plot_and_in_the_legend() -> None:
    """A threshold widens the axis to its height and has a line in the legend."""
    shown = figure(line("ppo", [0, 100, 200, 300, 300]), marks=[("threshold", 475.0)])
    text = drawn(shown, {"ppo": "ppo: 3 of 3 runs."})
    assert "┄ threshold at 475.00" in text.splitlines()
    assert "400 ┤" in text


def test_the_metric_is_named_once() -> None:
    """A title that holds the metric does not repeat it."""
    shown = figure(line("ppo", [0, 1]))
    named = LineFigure(
        name="loss",
        title="CartPole-v1: train/loss",
        x=shown.x,
        y=Axis(title="train/loss"),
        lines=shown.lines,
    )
    assert "CartPole-v1: train/loss" == drawn(named).splitlines()[0]


def test_more_labels_than_letters_and_colours() -> None:
    """With very many labels, letters and colours are used again."""
    labels = [f"label-{k}" for k in range(len(LETTERS) + 1)]
    lines = [line(label, [float(k), float(k + 1)]) for k, label in enumerate(labels)]
    rows = drawn(figure(*lines), {label: f"{label}." for label in labels}).splitlines()
    assert ["a label-0.", f"a {labels[-1]}."] == [rows[10], rows[-1]]
    assert drawn(figure(*lines[: len(COLOURS) + 1]), colours=True)


def test_control_characters_of_names_are_not_printed() -> None:
    """A name cannot send codes to the terminal."""
    shown = figure(line("p\x1b[31mpo", [0, 1]))
    assert "\x1b" not in drawn(shown, {"p\x1b[31mpo": "p\x1b[31mpo: 1 of 1 run."})


ONE_LABEL = """\
CartPole-v1: mean return
    │                                                            ⡀   ⡀   ⡀  ⣀⣀⣀⣂
400 ┤                                            ⡀   ⡀ ⢀⣀⣀⣀⠦⠤⡤⠤⠒⠒⡒⠒⠒⠊⠉⠉⠋⠉⠉⠉⠋   ⠂
    │                                    ⡀  ⢀⣀⡠⠦⠔⡒⠒⠊⠉⠉⠉⠃
200 ┤                            ⡀  ⢀⣀⡠⠦⠔⡒⠊⠋⠁
    │                ⡀⣀⣂⣀⣀⠤⠦⠤⡔⠒⠒⠒⡊⠉⠋⠁
  0 ┤               ⠉⠉ ⠂
    └┬──────────────┬──────────────┬─────────────┬──────────────┬──────────────┬
     0            1000           2000          3000           4000          5000
                                  environment steps
━ ppo: 5 of 5 runs.
""".splitlines()

TWO_LABELS = """\
CartPole-v1: mean return
400 ┤                                                                   aaaaaaaa
    │                                                        aaaaaaaaaaa
    │                                              abababababbbbbbbbbbbbbbbbbbbb
200 ┤                                   aaaaaabababb
    │                        aaaaaaaaaaabbbbb
  0 ┤               bababababbbbbbbbbbbb
    └┬──────────────┬──────────────┬─────────────┬──────────────┬──────────────┬
     0            1000           2000          3000           4000          5000
                                  environment steps
a ppo: 3 of 3 runs.
b a2c: 3 of 3 runs.
""".splitlines()
