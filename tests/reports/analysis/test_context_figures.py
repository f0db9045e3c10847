"""Maps of returns over contexts: which cells there are, what stands in them, and what is empty."""

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
    """The section, whose maps show these parameters."""
    return GeneralisationSection(tail=0.1, mastery=None, parameters=parameters, bins=bins)


def maps(own: Evidence, parameters: tuple[str, ...] | None = None, bins: int = 6) -> list[HeatMap]:
    """The maps of a report."""
    return of_kind(part_of(section(parameters, bins), own), HeatMap)


def lines(own: Evidence, parameters: tuple[str, ...] | None = None) -> list[LineFigure]:
    """The lines of a report."""
    return of_kind(part_of(section(parameters), own), LineFigure)


def estimate(figure: HeatMap, column: str, row: str) -> float | None:
    """What stands in the cell of these names."""
    value = figure.values[figure.rows.index(row)][figure.columns.index(column)]
    return None if value is None else value.estimate


def test_cells_by_hand() -> None:
    """A cell is the mean over runs of the mean over the contexts of each run in the cell."""
    played = contexts(("gravity", "length"), [(8.0, 1.0), (8.0, 1.0), (9.0, 1.0), (8.0, 2.0)])
    own = evidence(
        played_out(configured(), seed, [1.0 + seed, 3.0, 10.0, 20.0 * seed], played)
        for seed in range(3)
    )
    (found,) = maps(own)
    assert (("gravity", "length"), ("8", "9"), ("1", "2")) == (
        (found.x, found.y),
        found.columns,
        found.rows,
    )
    assert [2.5, 10.0, 20.0] == [
        estimate(found, *cell) for cell in (("8", "1"), ("9", "1"), ("8", "2"))
    ]
    assert None is estimate(found, "9", "2")
    assert "Empty cells had no episode." in found.note


def test_a_map_for_each_label_of_a_task_on_one_scale() -> None:
    """Each label has a map of the whole grid, and maps of a task share the colour scale."""
    found = maps(grid_tested())
    assert [f"{n} on {CARTPOLE}: mean return by context" for n in ("ppo", "a2c", "dqn")] == [
        own.title for own in found[:3]
    ]
    for own in found:
        assert (len(GRAVITY), len(LENGTH)) == (len(own.columns), len(own.rows))
        assert all(value and value.n == 5 for row in own.values for value in row)
    first, last = found[:3], found[3:]
    assert 1 == len({own.colour for own in first}) == len({own.colour for own in last})
    values = [v.estimate for own in first for row in own.values for v in row if v]
    assert (min(values), max(values)) == (found[0].colour.low, found[0].colour.high)


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
    found = maps(sampled(), bins=4)
    for own in found:
        assert ("8 to 9", "9 to 10", "10 to 11", "11 to 12") == own.columns
        counts = {value.n for row in own.values for value in row if value}
        assert min(counts) < 5 == max(counts)


def test_bins_contain_their_lower_edges() -> None:
    """A value on an inner edge belongs to the upper bin, the largest value to the last bin."""
    places = ContextAxis("x", (0.5, 1.5), (0.0, 1.0, 2.0))
    assert [0, 0, 1, 1] == places.of(np.array([0.0, 0.9, 1.0, 2.0])).tolist()


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
    """The figure shows the two chosen parameters and the note names the third."""
    (default,) = maps(three_parameters())
    assert ("gravity", "length") == (default.x, default.y)
    assert "Averaged over wind." in default.note
    (chosen,) = maps(three_parameters(), ("wind", "gravity"))
    assert ("wind", "gravity") == (chosen.x, chosen.y)
    assert "Averaged over length." in chosen.note
    (alone,) = lines(three_parameters(), ("length",))
    assert "Averaged over gravity and wind." in alone.note


def test_a_parameter_that_no_test_varies_is_refused() -> None:
    """The error lists the varied parameters and suggests the nearest name."""
    expected = (
        r"no test varies 'gravty'; did you mean 'gravity'\?? \(tests vary: gravity, length\)"
    )
    with pytest.raises(ConfigError, match=expected):
        section(("gravty",)).part(inquiry(grid_tested()))


def test_a_single_value_of_all_parameters_has_no_figure() -> None:
    """Without a varied parameter there is no figure."""
    own = evidence([on_contexts("ppo", 0, GRID[:1])])
    assert [] == [*maps(own), *lines(own)]


def test_negative_and_small_values_have_names() -> None:
    """Values have a true minus sign and enough digits to differ."""
    assert ("−0.001", "0", "1e−06") == ContextAxis("x", (-0.001, 0.0, 1e-06)).names
