"""Trainings inside components: measures, exact continuation, and components without effect."""

from pathlib import Path

import pytest
from trainings import TINY, run_training, shared_training

from rlexp.records.events import Evaluated, RunEnded

SHORT = (
    "budget.steps=128",
    "budget.evaluation_every=64",
    "budget.evaluation_episodes=1",
    "budget.final_episodes=3",
    "agent.network=[8]",
)
PPO = (*TINY["ppo"], *SHORT)
EVERY = 60
"""Steps between checkpoints."""
SAFETY = (
    "component=safety",
    "environment.components.safety.constraints={tilt: {entry: 2, above: 0.1}}",
)
TERMINATIONS = "environment.components.constraints_as_terminations"
CAT = (
    "component=constraints_as_terminations",
    f"{TERMINATIONS}.constraints={{tilt: {{entry: 2, above: 0.0}}}}",
)
SHAPING = (
    "component=shaping",
    "environment.components.shaping.terms=[{weight: 1.0, entry: 2, power: 2}]",
)


def evaluations(listener: object) -> list[Evaluated]:
    """The evaluations that a listener received."""
    return [e for e in listener.events if isinstance(e, Evaluated)]  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def plain_training() -> tuple[RunEnded, list[Evaluated]]:
    """The end and the evaluations of a training without components."""
    listener, end = shared_training(*PPO)
    assert end.weights is not None, end
    return end, evaluations(listener)


@pytest.mark.parametrize(
    "words",
    [
        SAFETY,
        (*CAT, f"{TERMINATIONS}.probability=0"),
        (*SHAPING, "environment.components.shaping.scale=0"),
        ("component=observation_noise", "environment.components.observation_noise.deviation=0"),
        (
            "component=observation_delay",
            "environment.components.observation_delay={least: 0, most: 0}",
        ),
        ("component=action_delay", "environment.components.action_delay={least: 0, most: 0}"),
    ],
    ids=lambda words: words[0],
)
def test_a_component_that_does_nothing_changes_nothing(
    words: tuple[str, ...], plain_training: tuple[RunEnded, list[Evaluated]]
) -> None:
    """With a component of strength 0, weights and returns equal those without components."""
    listener, end = shared_training(*PPO, *words, checkpoint_every=EVERY)
    assert plain_training[0].weights == end.weights
    assert [e.returns for e in plain_training[1]] == [e.returns for e in evaluations(listener)]


@pytest.mark.parametrize(
    "words", [CAT, SHAPING, ("component=time_limit_awareness",)], ids=lambda words: words[0]
)
def test_a_component_that_does_something_changes_the_policy(
    words: tuple[str, ...], plain_training: tuple[RunEnded, list[Evaluated]]
) -> None:
    """A component with a strength above 0 changes the weights of the policy."""
    _, end = shared_training(*PPO, *words, checkpoint_every=EVERY)
    assert end.weights is not None, end
    assert plain_training[0].weights != end.weights


def test_every_episode_of_every_evaluation_has_its_costs() -> None:
    """Every evaluation has one cost per episode, and some costs are above 0."""
    listener, _ = shared_training(*PPO, *SAFETY, checkpoint_every=EVERY)
    for event in evaluations(listener):
        measures = event.measures or {}
        assert {"cost", "cost/tilt", "violations"} == set(measures)
        assert len(event.returns) == len(measures["cost"])
    assert sum((evaluations(listener)[-1].measures or {})["cost"]) > 0


CONTINUED = {
    "noise and delays": (
        *TINY["ppo"],
        "environment=pendulum",
        "component=[observation_noise,action_noise,observation_delay,action_delay]",
        "environment.components.observation_delay={least: 0, most: 3, each: step}",
        "environment.components.action_delay={least: 1, most: 2, each: episode}",
        "environment.max_episode_steps=50",
    ),
    "sticky, timed and shaped": (
        *TINY["ppo"],
        "component=[sticky_actions,time_limit_awareness,shaping]",
        SHAPING[1],
    ),
    "CaT with a given scale": (*TINY["ppo"], *CAT, f"{TERMINATIONS}.scale={{tilt: 0.2}}"),
}


@pytest.mark.parametrize("case", CONTINUED)
def test_a_training_inside_components_goes_on_exactly(case: str, tmp_path: Path) -> None:
    """A training inside components continues from a checkpoint with equal weights and returns."""
    words = (*CONTINUED[case], *SHORT)
    control, end = shared_training(*words, checkpoint_every=EVERY)
    assert end.weights is not None, end
    checkpoint = control.saved_checkpoint(0)
    listener, continued_end = run_training(tmp_path / "again", *words, checkpoints=[checkpoint])
    assert [checkpoint.step] == listener.began_at
    assert end.weights == continued_end.weights
    assert evaluations(control)[-1].returns == evaluations(listener)[-1].returns


def test_learnt_violations_make_a_run_start_from_scratch(tmp_path: Path) -> None:
    """Checkpoints lack learnt violations: the run restarts and ends with equal weights."""
    words = (*PPO, *CAT)
    control, end = shared_training(*words, checkpoint_every=EVERY)
    listener, restarted_end = run_training(
        tmp_path / "again", *words, checkpoints=[control.saved_checkpoint(0)]
    )
    assert [None] == listener.began_at
    assert end.weights is not None
    assert end.weights == restarted_end.weights
