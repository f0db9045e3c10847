"""Sticky actions repeat with the set probability, and never across a reset."""

from typing import Any

import numpy as np
import pytest
from scripted import Scripted, array, play

from rlexp.components.sticky_actions import StickyActions
from rlexp.environments import Stage

STEPS = 4000


def sticky_actions(probability: float = 0.25, stage: Any = "both") -> StickyActions:
    """Sticky actions with the given settings."""
    return StickyActions(probability=probability, stage=stage)


def test_actions_stick_with_the_set_probability() -> None:
    """Each action is the current or the last one; a quarter is repeated."""
    script = Scripted([0.0] * (STEPS + 1))
    actions = [array(step / STEPS) for step in range(STEPS)]
    play(sticky_actions().wrap(script, Stage.TRAINING), actions)
    played_actions = np.concatenate(script.played_actions).tolist()
    repeats = 0
    for step in range(1, STEPS):
        assert played_actions[step] in {actions[step][0], played_actions[step - 1]}
        repeats += played_actions[step] == played_actions[step - 1]
    assert 0.25 == pytest.approx(repeats / (STEPS - 1), abs=4 * (0.25 * 0.75 / STEPS) ** 0.5)


def test_the_first_action_of_an_episode_never_sticks() -> None:
    """Even at a probability of 0.999, no action of the last episode is repeated."""
    script = Scripted([0.0, 0.0, 0.0])
    env = sticky_actions(0.999).wrap(script, Stage.TRAINING)
    for value in (0.1, 0.2, 0.3):
        play(env, [array(value), array(0.9)], seed=0)
        assert [value, value] == [float(action[0]) for action in script.played_actions]


def test_sticky_actions_act_at_their_stages() -> None:
    """Actions stick at their stages only; in distribution counts as training."""
    env = Scripted([0.0, 0.0])
    for stage, expected in (
        ("both", list(Stage)),
        ("training", [Stage.TRAINING, Stage.IN_DISTRIBUTION]),
        ("evaluation", [Stage.EVALUATION]),
    ):
        assert expected == [
            s for s in Stage if sticky_actions(stage=stage).wrap(env, s) is not env
        ]
        assert sticky_actions(stage=stage).splits == (stage != "both")
