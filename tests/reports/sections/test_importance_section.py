"""Importance of parameters in a report."""

from collections.abc import Callable

import pytest
from evidence_samples import inquiry, typical
from part_blocks import column, notices, part_of, table, texts
from sweep_samples import (
    EPOCHS,
    LEARNING_RATE,
    NETWORK,
    WIDTH,
    none_succeeded,
    searching,
    swept,
    two_sweeps,
)

from rlexp.reports.drawing.blocks import Tone
from rlexp.reports.evidence.runs import Evidence
from rlexp.reports.sections.importance import ImportanceSection
from rlexp.stats.interval import Interval


@pytest.mark.parametrize("sample", [typical, searching])
def test_there_is_no_part_without_importances(sample: Callable[[], Evidence]) -> None:
    """Plain runs, and sweeps with few trials, have no importances."""
    assert None is ImportanceSection().part(inquiry(sample()))


def test_both_methods_have_a_column() -> None:
    """The rows are in the order of the first method, and cells are intervals."""
    importance_table = table(part_of(ImportanceSection(), swept()), "importance")
    assert ["parameter", "PED-ANOVA", "fANOVA"] == [c.title for c in importance_table.columns]
    assert [LEARNING_RATE, EPOCHS, NETWORK, WIDTH] == column(importance_table, "parameter")
    shares = [share for share in column(importance_table, "fANOVA") if isinstance(share, Interval)]
    assert [0.9, 0.05, 0.03, 0.02] == [share.estimate for share in shares]


def test_the_difference_of_the_methods_is_explained() -> None:
    """The section explains why the methods differ."""
    assert "They differ where" in texts(part_of(ImportanceSection(), swept()))[0]


def test_the_note_has_the_data_behind_the_shares() -> None:
    """The note has the number of trials and R²."""
    note = table(part_of(ImportanceSection(), swept()), "importance").note
    assert "PED-ANOVA: From the best 5 of 40 complete trials." in note
    assert "fANOVA: cross-validated R² 0.70." in note


def test_pairs_have_a_table() -> None:
    """Interactions of parameters have a table."""
    pairs_table = table(part_of(ImportanceSection(), swept()), "importance-pairs")
    assert ((LEARNING_RATE, EPOCHS, "fANOVA", 0.04),) == pairs_table.rows


def test_a_missing_importance_has_a_reason() -> None:
    """A missing importance has a notice with the reason, and no explanation of methods."""
    part = part_of(ImportanceSection(), none_succeeded())
    expected = "No importance by PED-ANOVA: 0 complete trials are too few."
    assert [(Tone.NOTE, expected)] == notices(part)
    assert [] == texts(part)


def test_several_sweeps_are_explained_once() -> None:
    """One explanation precedes the tables of all sweeps."""
    part = part_of(ImportanceSection(), two_sweeps())
    assert 1 == len(texts(part))
    assert table(part, "importance-sample").rows == table(part, "importance-other").rows
