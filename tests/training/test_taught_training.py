"""Trainings with a teacher end with the same weights after a kill."""

from pathlib import Path

import pytest
from trainings import TINY, run_training, shared_training

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
    "mbtl": ("environment.components.teacher.stage_episodes=10",),
    "success_rate": ("environment.components.teacher.neighbours=2",),
    "alp_gmm": ("environment.components.teacher.fit_every=20", "environment.vector.count=2"),
    "iwocs": (
        "environment.components.teacher.train_episodes=2",
        "environment.components.teacher.candidates=2",
        "environment.components.teacher.evaluations=1",
    ),
}
PROCESSES = "environment.vector.kind=subprocess"
OF_ONE = "environment.components.teacher.shared=null"


@pytest.mark.parametrize(
    ("name", "further", "expected"),
    [
        *((name, (), Continued) for name in CASES),
        ("alp_gmm", (PROCESSES,), Continued),
        ("alp_gmm", (OF_ONE,), Refused),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_weights_are_the_same_after_a_kill(
    name: str, further: tuple[str, ...], expected: type, tmp_path: Path
) -> None:
    """A run goes on with what its teacher knew; with a teacher for each environment it restarts."""
    words = (*WORDS, f"teacher={name}", *CASES[name], *further)
    control, end = shared_training(*words, checkpoint_every=90)
    assert end.weights is not None, end
    checkpoint = control.saved_checkpoint(0)

    listener, continued_end = run_training(tmp_path, *words, checkpoints=[checkpoint])

    assert [expected] == [type(e) for e in listener.events if isinstance(e, Continued | Refused)]
    assert end.weights == continued_end.weights
    assert end.acted == continued_end.acted


LEVELS = (
    *("environment=taxi", "component=levels", "environment.name=Taxi-v4-levels", "teacher=plr"),
    *("environment.max_episode_steps=20", "algorithm.n_steps=64", "environment.vector.count=2"),
    *("environment.components.levels.training=6", "budget.steps=512", "budget.final_episodes=2"),
    "budget.evaluation_every=null",
)


@pytest.mark.parametrize("further", [(), (PROCESSES,), ("algorithm=a2c",)], ids=str)
def test_replay_of_levels_goes_on(further: tuple[str, ...], tmp_path: Path) -> None:
    """Levels are played again by their scores, and a run goes on with the scores of its checkpoint."""
    score = "environment.components.teacher.score=max_mc"
    control, end = shared_training(*LEVELS, *further, score, checkpoint_every=250)
    assert end.weights is not None, end
    assert end.acted is not None
    assert end.acted["teacher"] > 0
    checkpoint = control.saved_checkpoint(0)

    listener, rest = run_training(tmp_path, *LEVELS, *further, score, checkpoints=[checkpoint])

    assert [Continued] == [type(e) for e in listener.events if isinstance(e, Continued | Refused)]
    assert (end.weights, end.acted) == (rest.weights, rest.acted)
    assert end.training_shift == rest.training_shift


def test_training_says_how_far_it_is_from_its_target() -> None:
    """Training on one context in the middle is farther from the test range than training on ranges."""
    parameters = "environment.components.context.parameters"
    narrow = [f"{parameters}.length.training=0.5", f"{parameters}.gravity.training=9.8"]
    shifts = []
    for words in ((), tuple(narrow)):
        _, end = shared_training(*WORDS, *words, checkpoint_every=90)
        shifts.append(end.training_shift)
    wide, one = shifts
    assert wide is not None
    assert one is not None
    assert 0 < wide < one < 1


def test_tasks_without_contexts_have_no_shift() -> None:
    """A run without contexts and levels records no shift."""
    _, end = shared_training(*TINY["ppo"], "budget.steps=64", "budget.final_episodes=1")
    assert end.weights is not None
    assert end.training_shift is None


def test_processes_do_not_change_what_is_learnt() -> None:
    """A teacher hears the same of environments in one process and in several."""
    words = (*WORDS, "teacher=success_rate", *CASES["success_rate"], "environment.vector.count=2")
    ends = [shared_training(*words, *kind, checkpoint_every=90)[1] for kind in ((), (PROCESSES,))]
    assert ends[0].weights is not None
    assert ends[0].weights == ends[1].weights
    assert ends[0].acted == ends[1].acted
    assert ends[0].acted is not None
    assert ends[0].acted["teacher"] > 0


@pytest.mark.parametrize("further", [(), ("environment.vector.count=2", PROCESSES)])
def test_the_cost_of_searches_is_recorded(further: tuple[str, ...]) -> None:
    """The episodes and steps of searches for the worst context are in the record of a run."""
    end = shared_training(*WORDS, "teacher=iwocs", *CASES["iwocs"], *further, checkpoint_every=90)[
        1
    ]
    assert end.acted is not None
    assert end.acted["teacher"] > 0
    assert end.acted["teacher evaluation episodes"] >= 2 * end.acted["teacher"]
    assert end.acted["teacher evaluation steps"] > end.acted["teacher evaluation episodes"]


def test_a_teacher_changes_what_is_learnt() -> None:
    """A teacher changes the contexts, and therefore the weights."""
    weights = [
        shared_training(*WORDS, f"teacher={name}", *CASES[name], checkpoint_every=90)[1].weights
        for name in ("random", "success_rate")
    ]
    assert None not in weights
    assert 2 == len(set(weights))
