"""Trainings with a teacher repeat, and end with the same weights after a kill."""

from pathlib import Path

import pytest
from trainings import shared, trained

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
}


@pytest.mark.parametrize("name", CASES)
def test_weights_are_the_same_after_a_kill(name: str, tmp_path: Path) -> None:
    """Contexts from a generator continue; a teacher with lessons starts from scratch."""
    words = (*WORDS, f"teacher={name}", *CASES[name])
    control, ended = shared(*words, checkpoint_every=90)
    assert ended.weights is not None, ended
    saved = control.saved(0)

    memory, again = trained(tmp_path, *words, checkpoints=[saved])

    expected = Continued if name == "random" else Refused
    assert [expected] == [type(e) for e in memory.events if isinstance(e, Continued | Refused)]
    assert ended.weights == again.weights


def test_a_teacher_changes_what_is_learnt() -> None:
    """A teacher changes contexts and therefore weights."""
    weights = [
        shared(*WORDS, f"teacher={name}", *CASES[name], checkpoint_every=90)[1].weights
        for name in ("random", "success_rate")
    ]
    assert None not in weights
    assert 2 == len(set(weights))
