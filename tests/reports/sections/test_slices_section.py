"""Slices of a sweep in a report."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from evidence_samples import inquiry, typical
from part_blocks import of_kind, part_of, texts
from sweep_samples import (
    EPOCHS,
    LEARNING_RATE,
    NETWORK,
    SPACE,
    WIDTH,
    none_succeeded,
    odd_values,
    searching,
    swept,
    two_sweeps,
)

from rlexp.reports.drawing.blocks import ScatterFigure
from rlexp.reports.evidence.runs import Evidence
from rlexp.reports.sections import slices
from rlexp.reports.sections.slices import SlicesSection


def figures(sample: Evidence) -> dict[str, ScatterFigure]:
    """The figures of the section by title."""
    return {
        figure.title: figure for figure in of_kind(part_of(SlicesSection(), sample), ScatterFigure)
    }


@pytest.mark.parametrize("sample", [typical, none_succeeded])
def test_there_is_no_part_without_a_value(sample: Callable[[], Evidence]) -> None:
    """Plain runs, and sweeps without values, have no slices."""
    assert None is SlicesSection().part(inquiry(sample()))


def test_a_figure_for_each_parameter_the_most_important_first() -> None:
    """Figures are sorted by importance, or as in the space, and the part is folded."""
    assert [LEARNING_RATE, EPOCHS, NETWORK, WIDTH] == list(figures(swept()))
    assert list(SPACE.keys) == list(figures(searching()))
    assert part_of(SlicesSection(), swept()).folded


def test_numbers_stand_on_the_scale_of_their_range() -> None:
    """Trials are points at their learning rate on a logarithmic axis."""
    scatter = figures(swept())[LEARNING_RATE]
    assert scatter.x.log
    default = next(cloud for cloud in scatter.clouds if cloud.label == "default")
    assert ((3e-4,), (330.0,)) == (default.x, default.y)
    assert 9 == sum(len(cloud.x) for cloud in scatter.clouds)
    assert not figures(swept())[EPOCHS].x.log


def test_choices_have_names_instead_of_numbers() -> None:
    """Ticks of choices are names, and the default has the index of its choice."""
    scatter = figures(swept())[NETWORK]
    assert ("linear", "mlp") == scatter.ticks
    default = next(cloud for cloud in scatter.clouds if cloud.label == "default")
    assert (1.0,) == default.x


def test_trials_without_the_parameter_are_counted() -> None:
    """Trials without the parameter are counted and not drawn at zero."""
    scatter = figures(swept())[WIDTH]
    point_count = sum(len(cloud.x) for cloud in scatter.clouds)
    assert f"{9 - point_count} of 9 trials have no value on this axis." == scatter.note
    assert point_count < 9


def test_defaults_outside_of_their_choices_have_a_tick() -> None:
    """A default outside its choices has a tick, and a text on a numeric axis is left out."""
    by_parameter = figures(odd_values())
    assert ("linear", "mlp", "cnn") == by_parameter[NETWORK].ticks
    assert "1 of 2 trials have no value on this axis." == by_parameter[LEARNING_RATE].note


def test_only_the_most_important_parameters_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text names the parameters that are not drawn."""
    monkeypatch.setattr(slices, "MOST", 2)
    assert [LEARNING_RATE, EPOCHS] == list(figures(swept()))
    expected = "The 2 most important parameters; not drawn: agent.network and agent.width."
    assert [expected] == texts(part_of(SlicesSection(), swept()))


def test_several_sweeps_have_separate_figures() -> None:
    """Figures are named by parameter and experiment."""
    names = [f.name for f in of_kind(part_of(SlicesSection(), two_sweeps()), ScatterFigure)]
    assert 8 == len(set(names))
    assert f"slice-{EPOCHS}-other" in names


def test_without_importance_of_a_parameter_it_comes_last() -> None:
    """A parameter without an importance comes last."""
    sample = swept()
    importance = sample.sweeps[0].importances[0]
    only_width = replace(importance, shares={WIDTH: importance.shares[WIDTH]})
    changed_sample = replace(
        sample, sweeps=(replace(sample.sweeps[0], importances=(only_width,)),)
    )
    assert [WIDTH, LEARNING_RATE, EPOCHS, NETWORK] == list(figures(changed_sample))
