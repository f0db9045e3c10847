"""Declared measures: known values, directions, and what they change in a definition."""

from dataclasses import replace

import pytest
from samples import configuration, experiment
from sweep_samples import sweep

from rlexp.errors import ConfigError
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.measures import DeclaredMeasure, known_values, results_among

COST = DeclaredMeasure(direction="minimise", minimum=0.0, maximum=9.0).plain()


def scored_by(score: str, **measures: object) -> Configuration:
    """A configuration with this score and these declared measures."""
    return replace(configuration(score=score), measures=measures)


@pytest.mark.parametrize("score", ["final", "auc", "last_window"])
def test_scores_of_returns_use_the_reference_of_the_task(score: str) -> None:
    """The known values of a score about returns are those of the task, not those of a measure."""
    known = known_values(score, {"minimum": 1.0}, {score: {"minimum": 2.0}})
    assert {"minimum": 1.0} == known


def test_a_measure_has_its_own_known_values() -> None:
    """The known values of a measure are declared with it; returns say nothing about it."""
    assert {"minimum": 0.0, "maximum": 9.0} == scored_by("cost", cost=COST).score_reference
    assert {} == scored_by("success").score_reference


def test_the_worst_score_depends_on_the_direction() -> None:
    """The worst cost is the largest possible one, and the worst success the smallest."""
    cost = scored_by("cost", cost=COST)
    success = scored_by("success", success={"minimum": 0.0, "maximum": 1.0})
    assert (9.0, "environment.measures.cost.maximum") == (cost.worst_score, cost.worst_key)
    assert (0.0, "environment.measures.success.minimum") == (
        success.worst_score,
        success.worst_key,
    )
    assert 1.0 == configuration().worst_score


def test_only_a_scored_direction_changes_a_definition() -> None:
    """A direction is part of a definition if the score is that measure, and never of a run."""
    plain, declared = scored_by("cost"), scored_by("cost", cost=COST)
    assert plain.fingerprint == declared.fingerprint
    assert experiment(plain).fingerprint != experiment(declared).fingerprint
    assert {"direction": "minimise"}.items() <= experiment(declared).defined()[0][1].items()
    others = scored_by("final"), scored_by("final", cost=COST)
    assert experiment(others[0]).fingerprint == experiment(others[1]).fingerprint


def test_only_measures_and_the_score_have_declared_directions() -> None:
    """A measure with the name of an objective, such as `final`, does not turn the objective round."""
    study = experiment(replace(configuration(), measures={"final": COST, "cost": COST}))
    plan = sweep(objective=("final", "score", "cost", "spread"))
    assert {"cost", "spread"} == replace(study, sweep=plan).minimised
    assert {"score"} == replace(
        experiment(scored_by("cost", cost=COST)), sweep=sweep(objective="score")
    ).minimised


def test_known_values_can_be_left_out_without_the_direction() -> None:
    """Without its known values, a configuration keeps the direction of each measure."""
    bare = scored_by("cost", cost=COST).without_known_values()
    assert ({}, {}, True) == (bare.reference, bare.score_reference, bare.lower_is_better)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"minimum": 1.0, "maximum": 1.0}, "minimum=1 must be less than maximum=1"),
        ({"threshold": float("nan")}, "threshold=nan must be a finite number or null"),
    ],
)
def test_impossible_declarations_are_refused(values: dict[str, float], message: str) -> None:
    """Bounds in the wrong order and numbers that are not finite are refused."""
    with pytest.raises(ConfigError, match=message):
        DeclaredMeasure(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize("score", ["return", "", " ", "a\nb"])
def test_a_score_that_names_nothing_is_refused(score: str) -> None:
    """A score is a rule or a possible name of a measure."""
    with pytest.raises(ConfigError, match=r"budget\.score"):
        configuration(score=score)


def test_contexts_are_no_results() -> None:
    """A measure that records the context of an episode is not among the results."""
    assert ["cost", "success"] == results_among(["success", "context/length", "cost"])
