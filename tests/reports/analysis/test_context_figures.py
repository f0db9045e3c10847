"""Heat maps of returns over contexts: their cells, values and empty cells."""

import numpy as np
import pytest
from evidence_samples import CARTPOLE, configured, evidence, inquiry
from measured_samples import (
    GRAVITY,
    GRID,
    LENGTH,
    contexts,
    grid_tested,
    on_contexts,
    one_parameter,
    other_grids,
    played_out,
    sampled,
    three_parameters,
)
from part_blocks import of_kind, part_of

from rlexp.errors import ConfigError
from rlexp.reports.analysis.context_figures import ContextAxis
from rlexp.reports.drawing.blocks import HeatMap, LineFigure
from rlexp.reports.evidence.runs import Evidence
from rlexp.reports.sections.generalisation import GeneralisationSection


def section(parameters: tuple[str, ...] | None = None, bins: int = 6) -> GeneralisationSection:
    """The section on generalisation with maps of these parameters."""
    return GeneralisationSection(tail=0.1, mastery=None, parameters=parameters, bins=bins)


def maps(
    sample: Evidence, parameters: tuple[str, ...] | None = None, bins: int = 6
) -> list[HeatMap]:
    """The heat maps of a report."""
    return of_kind(part_of(section(parameters, bins), sample), HeatMap)


def lines(sample: Evidence, parameters: tuple[str, ...] | None = None) -> list[LineFigure]:
    """The line figures of a report."""
    return of_kind(part_of(section(parameters), sample), LineFigure)


def estimate(figure: HeatMap, column: str, row: str) -> float | None:
    """The estimate in the cell of this column and row."""
    value = figure.values[figure.rows.index(row)][figure.columns.index(column)]
    return None if value is None else value.estimate


def test_cells_by_hand() -> None:
    """A cell is the mean over runs of the mean over the contexts of each run in the cell."""
    episode_contexts = contexts(
        ("gravity", "length"), [(8.0, 1.0), (8.0, 1.0), (9.0, 1.0), (8.0, 2.0)]
    )
    sample = evidence(
        played_out(configured(), seed, [1.0 + seed, 3.0, 10.0, 20.0 * seed], episode_contexts)
        for seed in range(3)
    )
    (heat_map,) = maps(sample)
    assert (("gravity", "length"), ("8", "9"), ("1", "2")) == (
        (heat_map.x, heat_map.y),
        heat_map.columns,
        heat_map.rows,
    )
    assert [2.5, 10.0, 20.0] == [
        estimate(heat_map, *cell) for cell in (("8", "1"), ("9", "1"), ("8", "2"))
    ]
    assert None is estimate(heat_map, "9", "2")
    assert "Empty cells had no episode." in heat_map.note


def test_a_map_for_each_label_of_a_task_on_one_scale() -> None:
    """Each label has a map of the whole grid, and maps of a task share the colour scale."""
    heat_maps = maps(grid_tested())
    assert [f"{n} on {CARTPOLE}: mean return by context" for n in ("ppo", "a2c", "dqn")] == [
        heat_map.title for heat_map in heat_maps[:3]
    ]
    for heat_map in heat_maps:
        assert (len(GRAVITY), len(LENGTH)) == (len(heat_map.columns), len(heat_map.rows))
        assert all(value and value.n == 5 for row in heat_map.values for value in row)
    first_task, last_task = heat_maps[:3], heat_maps[3:]
    assert (
        1
        == len({heat_map.colour for heat_map in first_task})
        == len({heat_map.colour for heat_map in last_task})
    )
    values = [v.estimate for heat_map in first_task for row in heat_map.values for v in row if v]
    assert (min(values), max(values)) == (heat_maps[0].colour.low, heat_maps[0].colour.high)


def test_the_note_has_the_ranges_in_distribution() -> None:
    """The note has the range of each parameter in the episodes in distribution."""
    assert (
        "In distribution: gravity 9 to 11 and length 0.5 to 0.75." in maps(grid_tested())[0].note
    )


def test_labels_share_the_axes_where_their_grids_differ() -> None:
    """Labels with different grids share axes, and cells without episodes are empty."""
    first, second = maps(other_grids())
    assert first.columns == second.columns
    assert None is estimate(first, "12", "1")
    assert None is estimate(second, "8", "1")


def test_sampled_contexts_are_binned_with_round_edges() -> None:
    """Every sampled context lies in a bin, and a cell counts the runs with an episode in it."""
    heat_maps = maps(sampled(), bins=4)
    for heat_map in heat_maps:
        assert ("8 to 9", "9 to 10", "10 to 11", "11 to 12") == heat_map.columns
        counts = {value.n for row in heat_map.values for value in row if value}
        assert min(counts) < 5 == max(counts)


def test_bins_contain_their_lower_edges() -> None:
    """A value on an inner edge belongs to the upper bin, the largest value to the last bin."""
    axis = ContextAxis("x", (0.5, 1.5), (0.0, 1.0, 2.0))
    assert [0, 0, 1, 1] == axis.of(np.array([0.0, 0.9, 1.0, 2.0])).tolist()


def test_one_varied_parameter_is_a_line() -> None:
    """With one varied parameter, each label has a line with a band."""
    (figure,) = lines(one_parameter())
    assert ["ppo", "a2c"] == [line.label for line in figure.lines]
    for line in figure.lines:
        assert GRAVITY == line.x
        assert line.low is not None
        assert all(
            low is not None and low < y for low, y in zip(line.low, line.y, strict=True) if y
        )
    assert [] == maps(one_parameter())


def test_the_note_names_parameters_that_are_averaged_over() -> None:
    """A map shows the two chosen parameters, and its note names the third."""
    (default_map,) = maps(three_parameters())
    assert ("gravity", "length") == (default_map.x, default_map.y)
    assert "Averaged over wind." in default_map.note
    (chosen_map,) = maps(three_parameters(), ("wind", "gravity"))
    assert ("wind", "gravity") == (chosen_map.x, chosen_map.y)
    assert "Averaged over length." in chosen_map.note
    (line_figure,) = lines(three_parameters(), ("length",))
    assert "Averaged over gravity and wind." in line_figure.note


def test_a_parameter_that_no_test_varies_is_refused() -> None:
    """The error for an unknown parameter lists the varied ones and suggests the nearest name."""
    expected = (
        r"no test varies 'gravty'; did you mean 'gravity'\?? \(tests vary: gravity, length\)"
    )
    with pytest.raises(ConfigError, match=expected):
        section(("gravty",)).part(inquiry(grid_tested()))


def test_a_single_value_of_all_parameters_has_no_figure() -> None:
    """Contexts without a varied parameter have no figure."""
    sample = evidence([on_contexts("ppo", 0, GRID[:1])])
    assert [] == [*maps(sample), *lines(sample)]


def test_negative_and_small_values_have_names() -> None:
    """Values have a true minus sign and enough digits to differ."""
    assert ("−0.001", "0", "1e−06") == ContextAxis("x", (-0.001, 0.0, 1e-06)).names
