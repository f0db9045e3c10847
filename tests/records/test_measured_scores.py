"""Scores that are measures: their means, and the episodes that lack them."""

import math
from dataclasses import replace

import pytest
from samples import evaluated, spec

from rlexp.records.events import Evaluated, Measures
from rlexp.records.run import RunRecord, State
from rlexp.records.scored_measure import lacking_measure

NAN = math.nan


def final(measures: Measures | None) -> Evaluated:
    """A final evaluation of two episodes."""
    return replace(evaluated(100, 10.0, 20.0, final=True), measures=measures)


def completed(measures: Measures | None, score: str = "success") -> RunRecord:
    """A completed run with these measures in its final evaluation."""
    return RunRecord(spec=spec(score=score), state=State.COMPLETED, final=final(measures))


def test_the_score_is_the_mean_of_the_measure() -> None:
    """A score that names a measure is its mean over the final episodes."""
    assert 0.5 == completed({"success": (1.0, 0.0), "cost": (3.0, 4.0)}).score
    assert 15.0 == completed({"success": (1.0, 0.0)}, "final").score


@pytest.mark.parametrize(
    "measures", [None, {"cost": (1.0, 1.0)}, {"success": (1.0, NAN)}, {"success": (1e300, 1e300)}]
)
def test_a_missing_measure_is_no_score(measures: Measures | None) -> None:
    """A run has no score if an episode lacks the measure, or its mean is out of range."""
    record = completed(measures)
    assert record.score is None
    assert record.scoreless


def test_means_of_measures_are_those_of_reporting_episodes() -> None:
    """The mean of a measure is over the episodes that report it; contexts are left out."""
    record = completed({"cost": (3.0, NAN), "context/length": (1.0, 1.0), "odd": (NAN, NAN)})
    assert {"cost": 3.0} == record.measures
    assert {"cost": 3.0} == record.in_brief().measures


def test_the_reason_counts_the_episodes_without_the_measure() -> None:
    """The reason names the score, the lacking episodes, and what they report instead."""
    assert lacking_measure(final({"success": (1.0, 0.0)}), "success") is None
    assert lacking_measure(final(None), "final") is None
    reason = lacking_measure(final({"success": (1.0, NAN), "cost": (1.0, 1.0)}), "success")
    assert "1 of 2 episodes of the final evaluation lack it (they report: cost" in str(reason)
    reason = lacking_measure(replace(final(None), final=False), "success")
    assert "2 of 2 episodes of the evaluation at step 100 lack it" in str(reason)
