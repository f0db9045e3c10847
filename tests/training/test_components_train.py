"""Trainings inside components: measures, exact continuation, and components without effect."""

from pathlib import Path

import pytest
from trainings import TINY, shared, trained

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


def evaluations(memory: object) -> list[Evaluated]:
    """The evaluations that a listener received."""
    return [e for e in memory.events if isinstance(e, Evaluated)]  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def plain() -> tuple[RunEnded, list[Evaluated]]:
    """A training without components."""
    memory, ended = shared(*PPO)
    assert ended.weights is not None, ended
    return ended, evaluations(memory)


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
    words: tuple[str, ...], plain: tuple[RunEnded, list[Evaluated]]
) -> None:
    """With strength 0, weights and returns equal those of a training without components."""
    memory, ended = shared(*PPO, *words, checkpoint_every=EVERY)
    assert plain[0].weights == ended.weights
    assert [e.returns for e in plain[1]] == [e.returns for e in evaluations(memory)]


@pytest.mark.parametrize(
    "words", [CAT, SHAPING, ("component=time_limit_awareness",)], ids=lambda words: words[0]
)
def test_a_component_that_does_something_changes_the_policy(
    words: tuple[str, ...], plain: tuple[RunEnded, list[Evaluated]]
) -> None:
    """With a strength above 0 the weights differ, so the test above can fail."""
    _, ended = shared(*PPO, *words, checkpoint_every=EVERY)
    assert ended.weights is not None, ended
    assert plain[0].weights != ended.weights


def test_every_episode_of_every_evaluation_has_its_costs() -> None:
    """Every evaluation has one cost per episode, and some costs are above 0."""
    memory, _ = shared(*PPO, *SAFETY, checkpoint_every=EVERY)
    for event in evaluations(memory):
        measures = event.measures or {}
        assert {"cost", "cost/tilt", "violations"} == set(measures)
        assert len(event.returns) == len(measures["cost"])
    assert sum((evaluations(memory)[-1].measures or {})["cost"]) > 0


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
    """From a checkpoint, weights and returns continue to the last bit."""
    words = (*CONTINUED[case], *SHORT)
    control, ended = shared(*words, checkpoint_every=EVERY)
    assert ended.weights is not None, ended
    saved = control.saved(0)
    memory, again = trained(tmp_path / "again", *words, checkpoints=[saved])
    assert [saved.step] == memory.began_at
    assert ended.weights == again.weights
    assert evaluations(control)[-1].returns == evaluations(memory)[-1].returns


def test_learnt_violations_make_a_run_start_from_scratch(tmp_path: Path) -> None:
    """Checkpoints lack learnt violations: the run restarts and ends with equal weights."""
    words = (*PPO, *CAT)
    control, ended = shared(*words, checkpoint_every=EVERY)
    memory, again = trained(tmp_path / "again", *words, checkpoints=[control.saved(0)])
    assert [None] == memory.began_at
    assert ended.weights is not None
    assert ended.weights == again.weights
