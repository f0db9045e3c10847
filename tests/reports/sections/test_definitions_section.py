"""Definitions of the statistics that a report uses."""

from dataclasses import replace
from typing import Any

import pytest
from evidence_samples import empty, incomplete, inquiry, one_label, one_task, typical
from part_blocks import column, table, texts

from rlexp.reports.drawing.blocks import SectionContent
from rlexp.reports.evidence.runs import Evidence
from rlexp.reports.sections.definitions import DEFINITIONS, DefinitionsSection


def defined_statistics(
    sample: Evidence, sections: tuple[str, ...] = (), **settings: Any
) -> list[Any]:
    """Names of the defined statistics, in order."""
    return column(table(part(sample, sections, **settings), "definitions"), "statistic")


def part(sample: Evidence, sections: tuple[str, ...] = (), **settings: Any) -> SectionContent:
    """The section on definitions, which must exist."""
    content = DefinitionsSection().part(replace(inquiry(sample, **settings), sections=sections))
    assert content is not None
    return content


def test_metrics_come_first_in_their_own_words() -> None:
    """The first rows are the metrics, with docstring, settings and source."""
    definitions_table = table(part(typical()), "definitions")
    expected = ["IQM", "median of task means", "mean", "optimality gap"]
    assert expected == column(definitions_table, "statistic")[:4]
    alone = table(part(one_task()), "definitions")
    assert "median" == column(alone, "statistic")[1]
    assert str(definitions_table.rows[0][1]).startswith("Mean of the middle half of the runs")
    assert str(definitions_table.rows[3][1]).endswith("Here gamma = 1.0.")
    assert str(definitions_table.rows[0][2]).startswith("Agarwal et al. 2021")


@pytest.mark.parametrize(
    ("method", "name"),
    [("t", "t"), ("percentile", "percentile"), ("basic", "basic"), ("bca", "BCa")],
)
def test_only_the_method_of_interval_that_is_used_is_defined(method: str, name: str) -> None:
    """The report defines its method of intervals, and none of the other methods."""
    interval_names = {"t interval", "percentile interval", "basic interval", "BCa interval"}
    assert {f"{name} interval"} == interval_names & set(
        defined_statistics(typical(), interval=method)
    )


def test_comparisons_are_defined_where_labels_are_compared() -> None:
    """A report with a single label defines no tests."""
    tests = {"permutation test", "adjusted p", "interval of a difference", "difference of means"}
    assert tests <= set(defined_statistics(typical()))
    assert not tests & set(defined_statistics(one_label()))


def test_equivalence_is_defined_where_a_margin_was_declared() -> None:
    """A report without a margin does not define equivalence."""
    assert "equivalence" not in defined_statistics(typical())
    assert "equivalence" in defined_statistics(typical(), margin=1.0)


def test_bounds_are_defined_where_runs_are_missing() -> None:
    """Only a report with missing runs defines bounds."""
    assert (
        "bounds" in defined_statistics(typical()),
        "bounds" in defined_statistics(incomplete()),
    ) == (False, True)


def test_normalisation_is_defined_where_it_is_used() -> None:
    """Several tasks, or a capped metric, need the definition of normalised scores."""
    assert "normalised score" in defined_statistics(one_task())
    context = inquiry(one_task())
    raw_part = DefinitionsSection().part(replace(context, metrics={"iqm": context.metrics["iqm"]}))
    assert raw_part is not None
    assert "normalised score" not in column(table(raw_part, "definitions"), "statistic")


@pytest.mark.parametrize(
    ("section", "name"),
    [
        ("curves", "learning curve"),
        ("sample_efficiency", "area under the curve"),
        ("profiles", "performance profile"),
        ("improvement", "probability of improvement"),
        ("pairs", "Cliff's delta"),
        ("reliability", "reliability metrics"),
        ("thresholds", "time to threshold"),
    ],
)
def test_statistics_of_other_sections_are_defined_with_them(section: str, name: str) -> None:
    """A statistic is defined only in a report with its section."""
    assert (False, True) == (
        name in defined_statistics(typical()),
        name in defined_statistics(typical(), (section,)),
    )


def test_every_definition_has_words_and_a_source() -> None:
    """Every definition has a unique name, a meaning and a source."""
    # The IQM has two cuts, of which a report uses one.
    assert len(DEFINITIONS) == len({d.name for d in DEFINITIONS}) + 1
    assert all(d.meaning.endswith(".") and d.source for d in DEFINITIONS)


def test_the_text_has_seed_and_repetitions() -> None:
    """The text of the definitions has the seed and the number of repetitions."""
    text = texts(part(typical(), seed=7, repetitions=2000))[0]
    assert "seed 7: 2,000 for each" in text


def test_an_experiment_without_runs_has_no_part() -> None:
    """An experiment without planned runs has no definitions."""
    assert None is DefinitionsSection().part(inquiry(empty()))
