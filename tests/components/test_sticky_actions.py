"""Sticky actions repeat with the set probability, and never across a reset."""

from typing import Any

import numpy as np
import pytest
from scripted import Scripted, array, play

from rlexp.components.sticky_actions import StickyActions
from rlexp.environments import Stage

STEPS = 4000


def sticky(probability: float = 0.25, stage: Any = "both") -> StickyActions:
    """The component."""
    return StickyActions(probability=probability, stage=stage)


def test_actions_stick_with_the_set_probability() -> None:
    """Each action is the current or the last one; a quarter is repeated."""
    script = Scripted([0.0] * (STEPS + 1))
    actions = [array(step / STEPS) for step in range(STEPS)]
    play(sticky().wrap(script, Stage.TRAINING), actions)
    done = np.concatenate(script.done).tolist()
    stuck = 0
    for step in range(1, STEPS):
        assert done[step] in {actions[step][0], done[step - 1]}
        stuck += done[step] == done[step - 1]
    assert 0.25 == pytest.approx(stuck / (STEPS - 1), abs=4 * (0.25 * 0.75 / STEPS) ** 0.5)


def test_the_first_action_of_an_episode_never_sticks() -> None:
    """With any probability, no action of the last episode is repeated."""
    script = Scripted([0.0, 0.0, 0.0])
    env = sticky(0.999).wrap(script, Stage.TRAINING)
    for value in (0.1, 0.2, 0.3):
        play(env, [array(value), array(0.9)], seed=0)
        assert [value, value] == [float(action[0]) for action in script.done]


def test_it_acts_at_its_stages() -> None:
    """Actions stick at their stages only; in distribution counts as training."""
    env = Scripted([0.0, 0.0])
    for stage, acting in (
        ("both", list(Stage)),
        ("training", [Stage.TRAINING, Stage.IN_DISTRIBUTION]),
        ("evaluation", [Stage.EVALUATION]),
    ):
        assert acting == [s for s in Stage if sticky(stage=stage).wrap(env, s) is not env]
        assert sticky(stage=stage).splits == (stage != "both")
