"""A run that is killed at a random step continues there and ends with the same numbers."""

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from in_full import IN_FULL, long
from last_words import last_words
from studies import StudyFolder, new_study, wait_until

from rlexp.engine.run_in_flight import read_progress
from rlexp.training.checkpointing import MINIMUM_SPACING

SHORT = (
    "seeds.test=1",
    "budget.evaluation_every=600",
    "budget.evaluation_episodes=1",
    "budget.final_episodes=2",
    "agent.network=[16]",
)
NORMALISED = (
    "environment.vector.normalise_observations=true",
    "environment.vector.normalise_rewards=true",
)
ON_POLICY = ("budget.steps=2560", "algorithm.n_steps=128", "budget.checkpoint_every=150")
OFF_POLICY = (
    "budget.steps=1500",
    "algorithm.buffer_size=900",
    "algorithm.learning_starts=200",
    "algorithm.batch_size=32",
    "budget.checkpoint_every=100",
)
CASES = {
    "ppo on HalfCheetah": ("algorithm=ppo", "environment=half_cheetah", *ON_POLICY, *NORMALISED),
    "a2c on CartPole": (
        "algorithm=a2c",
        "environment=cartpole",
        "environment.vector.count=4",
        "budget.steps=4000",
        "budget.checkpoint_every=200",
    ),
    "dqn on LunarLander": ("algorithm=dqn", "environment=lunar_lander", *OFF_POLICY),
    "sac on Hopper": ("algorithm=sac", "environment=hopper", *OFF_POLICY, *NORMALISED),
    "dqn with priorities": ("algorithm=dqn", "replay=prioritised", *OFF_POLICY),
    "dqn with hindsight": (
        *("algorithm=dqn", "replay=her", "agent=multi_input", "environment=gymnasium"),
        *("environment.id=odd_environments:GoalBits-v0", *OFF_POLICY),
    ),
    "td3 on Pendulum": ("algorithm=td3", "environment=pendulum", *OFF_POLICY),
}
if not IN_FULL:
    # The other learners continue in one process, in tests of training.
    CASES = {name: CASES[name] for name in ("a2c on CartPole",)}


@pytest.fixture
def study(tmp_path: Path) -> Iterator[StudyFolder]:
    """A study in a folder with a space."""
    with new_study(tmp_path / "a study", warm=True) as study:
        yield study


def steps_of(study: StudyFolder, experiment: str, attempt: int) -> int:
    """The step that an attempt of the only run has reached."""
    paths = list((study.folder / "runs" / experiment).glob(f"*/attempts/{attempt}/progress.bin"))
    return read_progress(paths[0])[0] if paths else 0


def kill_at(study: StudyFolder, experiment: str, attempt: int, step: int, *arguments: str) -> None:
    """Start the command, and kill all its processes once the run has reached `step`."""
    command = study.start("run", f"experiment={experiment}", *arguments)
    wait_until(lambda: steps_of(study, experiment, attempt) >= step)
    for process in [psutil.Process(command.pid), *study.processes()]:
        try:
            os.kill(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    wait_until(lambda: not study.processes(), 10.0)


def evaluated(study: StudyFolder, experiment: str) -> list[tuple[object, ...]]:
    """Every evaluation with its returns and lengths; a repeated evaluation counts once."""
    (run,) = study.runs(experiment)
    assert "completed" == run["state"], run
    evaluations = {
        (e["step"], tuple(e["returns"]), tuple(e["lengths"]), e["final"])
        for e in study.events(experiment, "evaluated")
    }
    return sorted(evaluations)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_killed_run_continues_bit_for_bit(case: str, study: StudyFolder) -> None:
    """A run killed at two random steps ends with the weights and evaluations of the control."""
    arguments = last_words(*CASES[case], *SHORT)
    code, output = study.give("run", "experiment=control", *arguments)
    assert 0 == code, output
    steps = next(int(w.partition("=")[2]) for w in arguments if w.startswith("budget.steps="))
    moments = sorted(random.Random(case).sample(range(steps // 5, steps * 7 // 10), 2))
    for attempt, moment in enumerate(moments, 1):
        kill_at(study, "killed", attempt, moment, *arguments)
    code, output = study.give("run", "experiment=killed", *arguments)
    assert 0 == code, output
    continued = [event["step"] for event in study.events("killed", "continued")]
    assert 2 == len(continued), study.events("killed", "refused")
    assert sorted(continued) == continued
    assert evaluated(study, "control") == evaluated(study, "killed")
    weights = {e["weights"] for e in study.events("control", "ended")}
    assert weights == {e["weights"] for e in study.events("killed", "ended")}
    (run,) = study.runs("killed")
    assert 3 == run["attempts"]


UNSCHEDULED = last_words(
    "budget.steps=60_000",
    "algorithm.n_steps=128",
    "algorithm.n_epochs=2",
    *SHORT,
    "budget.checkpoint_minutes=null",
    "budget.evaluation_every=null",
)
"""Arguments without a schedule of checkpoints."""


def signal_command(study: StudyFolder, number: signal.Signals) -> int:
    """Send a signal to a command; returns the step of the only checkpoint of its run."""
    command = study.start("run", "experiment=x", *UNSCHEDULED)
    wait_until(lambda: steps_of(study, "x", 1) > 200)
    time.sleep(1.5 * MINIMUM_SPACING)
    command.send_signal(number)
    output, _ = command.communicate(timeout=60)
    assert command.returncode in {143, 75, 130}, output
    (saved,) = study.events("x", "checkpointed")
    return int(saved["step"])


@pytest.mark.parametrize("number", [signal.SIGUSR1, pytest.param(signal.SIGINT, marks=long)])
def test_a_signal_leaves_a_checkpoint(number: signal.Signals, study: StudyFolder) -> None:
    """A signal leaves a checkpoint at the start of a rollout, even without a schedule."""
    step = signal_command(study, number)
    assert 0 == step % 128
    _, output = study.give("resume", "--dry-run")
    assert f"continues from a checkpoint at step {step:,}" in output


@long
def test_what_a_signal_interrupted_continues(study: StudyFolder) -> None:
    """A run that SIGTERM interrupted continues from its checkpoint to the same weights."""
    step = signal_command(study, signal.SIGTERM)
    code, output = study.give("run", "experiment=x", *UNSCHEDULED)
    assert 0 == code, output
    assert [step] == [e["step"] for e in study.events("x", "continued")]
    assert study.give("run", "experiment=control", *UNSCHEDULED)[0] == 0
    weights = {e["weights"] for e in study.events("x", "ended")} - {None}
    assert weights == {e["weights"] for e in study.events("control", "ended")}


@long
def test_an_environment_that_cannot_be_put_back_is_restarted_visibly(study: StudyFolder) -> None:
    """A run of BipedalWalker cannot continue, records the refusal, and starts from step 0."""
    words = ("environment=bipedal_walker", *SHORT, *ON_POLICY, "budget.final_episodes=1")
    arguments = last_words(*words)
    code, output = study.give("run", "experiment=control", *arguments)
    assert 0 == code, output
    kill_at(study, "killed", 1, 1000, *arguments)
    code, output = study.give("run", "experiment=killed", *arguments)
    assert 0 == code, output
    refused = study.events("killed", "refused")
    assert refused
    assert [] == study.events("killed", "continued")
    assert evaluated(study, "control") == evaluated(study, "killed")
