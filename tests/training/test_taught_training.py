"""Trainings with a teacher end with the same weights after a kill."""

from pathlib import Path

import pytest
from trainings import run_training, shared_training

from rlexp.records.events import Continued, Refused

WORDS = (
    "environment=cartpole_contexts",
    "algorithm.n_steps=64",
    "budget.steps=192",
    "budget.evaluation_every=96",
    "budget.evaluation_episodes=1",
    "budget.final_episodes=2",
    "environment.components.context.visible=true",
)
CASES = {
    "random": (),
    "success_rate": ("environment.components.teacher.neighbours=2",),
    "alp_gmm": ("environment.components.teacher.fit_every=20", "environment.vector.count=2"),
    "iwocs": (
        "environment.components.teacher.train_episodes=2",
        "environment.components.teacher.candidates=2",
        "environment.components.teacher.evaluations=1",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_weights_are_the_same_after_a_kill(name: str, tmp_path: Path) -> None:
    """Random contexts continue from a checkpoint; a run with a learning teacher restarts."""
    words = (*WORDS, f"teacher={name}", *CASES[name])
    control, end = shared_training(*words, checkpoint_every=90)
    assert end.weights is not None, end
    checkpoint = control.saved_checkpoint(0)

    listener, continued_end = run_training(tmp_path, *words, checkpoints=[checkpoint])

    expected = Continued if name == "random" else Refused
    assert [expected] == [type(e) for e in listener.events if isinstance(e, Continued | Refused)]
    assert end.weights == continued_end.weights


def test_a_teacher_changes_what_is_learnt() -> None:
    """A teacher changes the contexts, and therefore the weights."""
    weights = [
        shared_training(*WORDS, f"teacher={name}", *CASES[name], checkpoint_every=90)[1].weights
        for name in ("random", "success_rate")
    ]
    assert None not in weights
    assert 2 == len(set(weights))
