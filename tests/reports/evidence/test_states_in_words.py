"""Texts of counts, lists of names, ranges and states of runs."""

import pytest
from evidence_samples import configured, incomplete, not_finite

from rlexp.protocol.seeds import Phase
from rlexp.reports.evidence.runs import run_states_text, score_definition, state
from rlexp.text import format_count, format_ranges, join_first_names, join_names


def test_things_are_counted() -> None:
    """A count of one is singular, and thousands have a separator."""
    assert ["0 runs", "1 run", "1,500 runs"] == [format_count(n, "run") for n in (0, 1, 1500)]


def test_names_are_listed() -> None:
    """Names are joined as in a sentence."""
    assert ["", "a", "a and b", "a, b and c"] == [join_names("abc"[:n]) for n in range(4)]


def test_many_names_are_shortened() -> None:
    """A shortened list has the number of the other names."""
    assert "a, b and 2 more" == join_first_names("abcd", 2)
    assert "a and b" == join_first_names("ab", 2)


@pytest.mark.parametrize(
    ("values", "words"),
    [([], ""), ([3], "3"), ([0, 1, 2, 4], "0–2, 4"), ([5, 4, 5], "4–5"), ([0, 2], "0, 2")],
    ids=str,
)
def test_numbers_are_written_as_ranges(values: list[int], words: str) -> None:
    """Consecutive numbers are ranges, sorted and without duplicates."""
    assert words == format_ranges(values)


def test_states_show_failures_damage_and_non_finite_scores() -> None:
    """A completed run without a finite score has its own state."""
    missing = [m for m in incomplete().members if m.score is None]
    assert ["failed (nan)", "interrupted", "planned", "unreadable"] == [state(m) for m in missing]
    unscored = [m for m in not_finite().members if m.score is None]
    assert "2 completed without a finite score" == run_states_text(unscored)
    assert "1 failed (nan), 1 interrupted" == run_states_text(missing[:2])


@pytest.mark.parametrize(
    ("score", "words"),
    [
        ("final", "over 2 fresh episodes"),
        ("auc", "height of the curve"),
        ("last_window", "last tenth"),
    ],
)
def test_scores_in_words(score: str, words: str) -> None:
    """The text describes the score that the budget declares."""
    assert words in score_definition(configured(score=score).spec(Phase.TEST, 0, 0))
