"""A picture of curves has a panel for each task, one legend, and the caption."""

from dataclasses import replace

import pytest

from rlexp.reports.drawing.blocks import Axis, FigureLine, LineFigure
from rlexp.reports.drawing.palette import Style
from rlexp.reports.figures import draw_picture
from rlexp.reports.figures.canvas import publication_style
from rlexp.reports.figures.panels import draw_panels

CAPTION = ("ppo: 3 of 3 runs.", "Line: interquartile mean over runs.")


def figure(*labels: str, title: str = "CartPole-v1") -> LineFigure:
    """A figure with a line for each label, of which one point is missing."""
    lines = tuple(
        FigureLine(label=label, x=(1.0, 2.0, 3.0), y=(float(k), None, k + 2.0))
        for k, label in enumerate(labels)
    )
    return LineFigure(
        name="curves", title=title, x=Axis(title="steps"), y=Axis(title="return"), lines=lines
    )


@pytest.mark.parametrize(("tasks", "panels"), [(1, 1), (2, 2), (3, 3)])
def test_each_task_has_a_panel(tasks: int, panels: int) -> None:
    """Each task has a panel with its name; a panel without a task is empty."""
    figures = [figure("ppo", "a2c", title=f"Task-{k}") for k in range(tasks)]
    looks = {"ppo": Style(0), "a2c": Style(1)}
    with publication_style():
        drawn = draw_panels(figures, looks, CAPTION)
    upper, lower = drawn.subfigs
    titles = [axes.get_title(loc="left") for axes in upper.axes if axes.axison]
    assert [f"Task-{k}" for k in range(panels)] == titles
    (legend,) = upper.legends
    assert ["ppo", "a2c"] == [text.get_text() for text in legend.get_texts()]
    assert "\n".join(CAPTION) == lower.texts[0].get_text()


def test_long_labels_stay_different() -> None:
    """Labels that differ in the middle of a long name differ in the legend."""
    labels = [f"ppo learning_rate=3e-4 n_epochs={k} gae_lambda=0.95 ent_coef=0.0" for k in (1, 2)]
    with publication_style():
        drawn = draw_panels(
            [figure(*labels)], {label: Style(k) for k, label in enumerate(labels)}, CAPTION
        )
    (legend,) = drawn.subfigs[0].legends
    assert labels == [text.get_text() for text in legend.get_texts()]


def test_a_panel_without_values_says_so() -> None:
    """A task without a value has an empty panel beside the others."""
    empty = replace(figure("ppo"), lines=())
    with publication_style():
        drawn = draw_panels([figure("ppo"), empty], {"ppo": Style(0)}, CAPTION)
    texts = [text.get_text() for axes in drawn.subfigs[0].axes for text in axes.texts]
    assert ["nothing to show"] == texts


def test_formulas_in_names_are_text() -> None:
    """A label with dollar signs, a backslash or a line break is drawn as text."""
    odd = figure("$x^", "_a\nb\\frac", "名" * 60)
    labels = [line.label for line in odd.lines]
    assert draw_picture([odd], labels, ["$ 5 of 5 runs \\x."], "png", "1").startswith(b"\x89PNG")
