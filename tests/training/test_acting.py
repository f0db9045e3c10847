"""Callbacks that act while a run trains: what they see, how runs end by them, and exact continuation."""

from pathlib import Path

import pytest
from in_full import long
from trainings import (
    check_continuation,
    interrupted,
    results,
    run_training,
    shared_training,
)

from rlexp.records.events import (
    Ending,
    Evaluated,
    Failure,
    Measured,
    Refused,
)

BUDGET = (
    "budget.steps=256",
    "budget.evaluation_every=64",
    "budget.evaluation_episodes=1",
    "budget.final_episodes=2",
    "environment.max_episode_steps=25",
    "agent.network=[8]",
)
PPO = (
    *("environment=cartpole", "algorithm=ppo", "algorithm.n_steps=32"),
    *("algorithm.n_epochs=2", "algorithm.batch_size=16"),
)
SAC = (
    *("environment=pendulum", "algorithm=sac", "algorithm.learning_starts=40"),
    *("algorithm.buffer_size=200", "algorithm.batch_size=16", "algorithm.train_freq=4"),
)
USERS = ("+callback.mine._target_=odd_callbacks.Tightening", "+callback.mine.noise=0.01")
LENGTHS = ("+callback.lengths._target_=odd_callbacks.LongerRollouts",)
PERTURBED = (
    *("callback.dormant_perturbation.every=60", "callback.dormant_perturbation.samples=32"),
    "callback.dormant_perturbation.threshold=0.3",
)
CASES: dict[str, tuple[str, ...]] = {
    "users": (*PPO, *USERS),
    "several": (*PPO, *USERS, *LENGTHS),
    "schedule": (
        *(*PPO, "callback=schedule"),
        (
            "callback.schedule.values={learning_rate: {shape: exponential, initial: 1e-2, final: 1e-4}, "
            "ent_coef: {shape: cosine, initial: 0.1}, n_epochs: {shape: linear, initial: 4, final: 1}, "
            "n_steps: {shape: steps, steps: [0, 100], values: [32, 16]}, "
            "clip_range: {shape: piecewise, steps: [0, 128], values: [0.3, 0.1]}}"
        ),
    ),
    "resets": (*PPO, "callback=resets", "callback.resets.every=90"),
    "all resets": (
        *SAC,
        "callback=resets",
        "callback.resets.every=90",
        "callback.resets.layers=all",
    ),
    "perturbation": (*SAC, "callback=dormant_perturbation", *PERTURBED),
    "perturbed ppo": (*PPO, "callback=dormant_perturbation", *PERTURBED),
    "controller": (
        *(*PPO, "callback=adaptive_rollout_length", "callback.adaptive_rollout_length.low=16"),
        *(
            "callback.adaptive_rollout_length.high=64",
            "callback.adaptive_rollout_length.reserve=2",
        ),
    ),
}
"""The words of trainings in which callbacks act."""


QUICK = ("several", "schedule", "resets", "perturbation", "controller")
NAMES = [name if name in QUICK else pytest.param(name, marks=long) for name in CASES]


def of_user(name: str, *words: str) -> tuple[str, ...]:
    """The words of a short training with one callback of `odd_callbacks`."""
    return (*PPO, *BUDGET, f"+callback.mine._target_=odd_callbacks.{name}", *words)


@pytest.mark.parametrize("name", NAMES)
def test_a_training_with_callbacks_continues_exactly(name: str, tmp_path: Path) -> None:
    """A training that was stopped ends with the weights (SHA-256) and scores of one that was not."""
    words = (*CASES[name], *BUDGET)
    control, expected = shared_training(*words)
    plain = tuple(word for word in words if "callback" not in word)
    without, _ = shared_training(*plain)
    assert expected.ending is Ending.COMPLETED, expected.reason
    assert results(without) != results(control)
    check_continuation(tmp_path, words, (70, 200), checkpoint_every=16)


@pytest.mark.parametrize("name", ["schedule", "resets", "perturbation", "controller"])
def test_shortcuts_change_no_number_of_a_training_with_callbacks(
    name: str, tmp_path: Path
) -> None:
    """Our callbacks leave the shortcuts of a learner in place, and the weights are equal without."""
    words = (*CASES[name], *BUDGET)
    lean, expected = shared_training(*words)
    whole, end = run_training(tmp_path, *words, lean=False)
    assert expected.weights == end.weights
    assert results(lean) == results(whole)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("Forgetful", "Forgetful has no state_dict()"), ("Unsaved", "what cannot be saved")],
)
def test_a_callback_without_a_saved_state_begins_anew(
    name: str, reason: str, tmp_path: Path
) -> None:
    """A continued training begins at step 0, says why, and ends with the same weights."""
    words = of_user(name)
    _, expected = shared_training(*words)
    stopped = interrupted(tmp_path / "stopped", 150, *words, checkpoint_every=16)
    checkpoint = stopped.saved_checkpoint(-1)
    rest, end = run_training(tmp_path / "rest", *words, checkpoints=[checkpoint])
    (refused,) = [event for event in rest.events if isinstance(event, Refused)]
    assert reason in refused.reason
    assert [None] == rest.began_at
    assert expected.weights == end.weights


def test_a_callback_that_ends_the_training_is_named() -> None:
    """The run is completed with its final evaluation, and its end says how many steps it took."""
    listener, end = shared_training(*of_user("Ending", "+callback.mine.after=100"))
    assert (Ending.COMPLETED, 100) == (end.ending, end.step)
    assert end.reason == "callback mine ended the training at step 100 of 256"
    final = [event for event in listener.events if isinstance(event, Evaluated) and event.final]
    assert [100] == [event.step for event in final]


def test_a_score_of_the_whole_curve_needs_the_whole_curve(tmp_path: Path) -> None:
    """A run with `score=auc` that a callback ends has no score, and says what to use."""
    words = of_user("Ending", "+callback.mine.after=100", "budget.score=auc")
    _, end = run_training(tmp_path, *words)
    assert (Ending.FAILED, Failure.USER) == (end.ending, end.failure)
    assert end.reason is not None
    assert "use budget.score=final" in end.reason


def test_an_error_of_a_callback_fails_the_run(tmp_path: Path) -> None:
    """The reason names the callback, its error and its line; nothing else is lost."""
    _, end = run_training(tmp_path, *of_user("Raising"))
    assert (Ending.FAILED, Failure.USER, 10) == (end.ending, end.failure, end.step)
    assert end.reason is not None
    assert end.reason.startswith("callback mine: ValueError: no more (odd_callbacks.py:")


@pytest.mark.parametrize("stop", [64, pytest.param(128, marks=long)])
def test_changed_rollout_lengths_are_trained(stop: int) -> None:
    """Each rollout has the length that was set during the one before it."""
    listener, end = shared_training(*PPO, *BUDGET, *LENGTHS)
    # Rollouts of 32 and 16 steps in turn: the last one begins at 240 and ends at 272.
    assert (Ending.COMPLETED, 272) == (end.ending, end.step)
    assert stop in {event.step for event in listener.events if isinstance(event, Evaluated)}


STOPPING = (
    *(*PPO, *BUDGET[1:4], "agent.network=[8]", "environment.max_episode_steps=5"),
    *("budget.steps=2048", "budget.stop_at=4.9"),
)
"""A training that ends as soon as the library has seen 100 training episodes, of five steps each."""


def test_a_training_ends_at_the_declared_return_of_training_episodes(tmp_path: Path) -> None:
    """It ends between two rollouts, with its final evaluation, and a continued one at the same step."""
    control, expected = shared_training(*STOPPING)
    assert (Ending.COMPLETED, 512) == (expected.ending, expected.step)
    assert expected.reason == ("training episodes reached budget.stop_at=4.9 at step 512 of 2,048")
    finals = [e.step for e in control.events if isinstance(e, Evaluated) and e.final]
    assert [512] == finals
    stopped = interrupted(tmp_path / "stopped", 300, *STOPPING, checkpoint_every=16)
    checkpoint = stopped.saved_checkpoint(-1)
    rest, end = run_training(tmp_path / "rest", *STOPPING, checkpoints=[checkpoint])
    assert [checkpoint.step] == rest.began_at
    assert (expected.weights, expected.reason) == (end.weights, end.reason)


def test_a_return_that_is_never_reached_changes_nothing(tmp_path: Path) -> None:
    """With a threshold out of reach, a training uses its budget, and ends with the same weights."""
    words = tuple(word for word in (*PPO, *BUDGET) if not word.startswith("budget.stop_at"))
    _, expected = shared_training(*words)
    _, end = run_training(tmp_path, *words, "budget.stop_at=1e6")
    assert (None, expected.weights) == (end.reason, end.weights)


def test_the_end_of_a_run_says_how_often_callbacks_acted() -> None:
    """Counters of callbacks are part of the end, also where they never acted; others are left out."""
    words = (*PPO, *BUDGET, "callback=[resets,dormant_ratio]")
    _, end = shared_training(*words, "callback.resets.every=100")
    _, never = shared_training(*words, "callback.resets.every=1000")
    assert ({"callback resets": 2}, {"callback resets": 0}) == (end.acted, never.acted)


def test_the_dormant_ratio_is_logged() -> None:
    """Each measurement is among the logged metrics, as a share."""
    words = (*PPO, *BUDGET, "callback=dormant_ratio", "callback.dormant_ratio.every=64")
    listener, _ = shared_training(*words)
    ratios = [
        event.metrics["callback/dormant_ratio"]
        for event in listener.events
        if isinstance(event, Measured) and "callback/dormant_ratio" in event.metrics
    ]
    assert len(ratios) == 4
    assert all(0 <= ratio <= 1 for ratio in ratios)


def test_components_and_teachers_say_how_often_they_acted(tmp_path: Path) -> None:
    """The counts of all environments are added, and a continued training counts what came before."""
    sticky = (*PPO, *BUDGET, "component=sticky_actions", "environment.vector.count=2")
    _, expected = shared_training(*sticky)
    assert expected.acted is not None
    # A quarter of 256 steps, but for the first of each episode.
    assert 30 < expected.acted["component sticky_actions"] < 90
    stopped = interrupted(tmp_path / "stopped", 150, *sticky, checkpoint_every=16)
    rest = tmp_path / "rest"
    _, end = run_training(rest, *sticky, checkpoints=[stopped.saved_checkpoint(-1)])
    assert expected.acted == end.acted
    key = "environment.components.sticky_actions.probability=0"
    _, idle = run_training(tmp_path / "idle", *sticky, key)
    assert {"component sticky_actions": 0} == idle.acted
    contexts = ("environment=cartpole_contexts", "teacher=success_rate")
    _, taught = run_training(tmp_path / "taught", *PPO[1:], *BUDGET[:-2], *contexts)
    assert taught.acted is not None
    assert set(taught.acted) == {"teacher"}
