"""A training emits all its events, and returns every failure as a value."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from stable_baselines3 import PPO
from trainings import TINY, RecordingListener, run_training, spec_of

from rlexp.app.execution.run_process import assemble
from rlexp.protocol.budget import overtime_text
from rlexp.records.events import (
    Checkpointed,
    Ending,
    Evaluated,
    Failure,
    Measured,
    RunEnded,
    StopRequest,
)
from rlexp.training.training_run import train

ODD = ("environment=gymnasium", "environment.id=odd_environments:Odd-v0", "algorithm.n_steps=64")
SHORT = ("budget.steps=256", "budget.evaluation_every=128", "budget.final_episodes=5")


@dataclass(frozen=True, slots=True)
class CompletedTraining:
    """A training that completed."""

    folder: Path
    listener: RecordingListener
    end: RunEnded


@pytest.fixture(scope="module")
def completed_training(tmp_path_factory: pytest.TempPathFactory) -> CompletedTraining:
    """A training of PPO over 256 steps."""
    folder = tmp_path_factory.mktemp("done")
    return CompletedTraining(folder, *run_training(folder, *TINY["ppo"], *SHORT))


def train_odd(
    folder: Path, fault: str, *words: str, **vector: Any
) -> tuple[RecordingListener, RunEnded]:
    """Train on an environment with a fault, in a vector with these settings."""
    environment = {"arguments": {"fault": fault}, "vector": vector}
    return run_training(folder, *ODD, *SHORT, *words, changes={"environment": environment})


def test_a_training_emits_metrics_evaluations_and_a_final_evaluation(
    completed_training: CompletedTraining,
) -> None:
    """PPO over 256 steps is evaluated at 128 and 256 and, at its end, over five episodes."""
    listener, end = completed_training.listener, completed_training.end
    evaluations = [e for e in listener.events if isinstance(e, Evaluated)]
    assert [(e.step, len(e.returns), e.final) for e in evaluations] == [
        (128, 10, False),
        (256, 10, False),
        (256, 5, True),
    ]
    assert all(e.returns == tuple(map(float, e.lengths)) for e in evaluations)
    assert [e.step for e in listener.events if isinstance(e, Measured)] == [64, 128, 192, 256]
    assert (end.ending, end.step, end.failure) == (Ending.COMPLETED, 256, None)
    assert len(end.weights or "") == 64


def test_the_files_of_stable_baselines3_are_there(completed_training: CompletedTraining) -> None:
    """A training writes the files that stable-baselines3 writes, under the same names."""
    from stable_baselines3 import PPO

    header, columns, *episodes = (
        (completed_training.folder / "0.monitor.csv").read_text().splitlines()
    )
    assert (header.startswith('#{"t_start"'), columns) == (True, "r,l,t")
    assert all(float(r) == float(n) for r, n, _ in (line.split(",") for line in episodes))
    with np.load(completed_training.folder / "evaluations.npz") as evaluations:
        assert evaluations["timesteps"].tolist() == [128, 256]
        assert (2, 10) == evaluations["results"].shape == evaluations["ep_lengths"].shape
    assert (completed_training.folder / "progress.csv").read_text().count("\n") == 5
    assert (
        PPO.load(completed_training.folder / "model.zip").num_timesteps
        == completed_training.end.step
    )
    assert completed_training.listener.beats[-1] == 256


def test_without_a_cadence_only_the_final_evaluation_is_made(tmp_path: Path) -> None:
    """A run with `evaluation_every=null` is evaluated once, at its end."""
    listener, _ = run_training(tmp_path, *TINY["ppo"], *SHORT, "budget.evaluation_every=null")
    assert [e.final for e in listener.events if isinstance(e, Evaluated)] == [True]


def test_checkpoints_are_published_at_their_cadence(tmp_path: Path) -> None:
    """A checkpoint with statistics is published at the first rollout after 100 steps."""
    words = (*TINY["ppo"], *SHORT, "environment.vector.normalise_observations=true")
    listener, _ = run_training(tmp_path, *words, checkpoint_every=100, keep_last=False)
    names = [e.name for e in listener.events if isinstance(e, Checkpointed)]
    assert ["checkpoints/128"] == names
    assert [128] == [c.step for c in listener.checkpoints]
    assert {"model.zip", "normalisation.npz", "state.npz"} == set(listener.checkpoints[0].files)


def test_a_request_to_stop_ends_the_run_at_the_next_step(tmp_path: Path) -> None:
    """A run that is asked to end at step 100 records `interrupted` and publishes no model."""
    listener = RecordingListener(tmp_path)
    listener.request, listener.request_at = StopRequest(Ending.INTERRUPTED, "enough"), 100
    _, end = run_training(tmp_path, *TINY["ppo"], *SHORT, listener=listener)
    assert (end.ending, end.reason, end.step) == (Ending.INTERRUPTED, "enough", 100)
    assert not (tmp_path / "model.zip").exists()


def test_time_runs_out(tmp_path: Path) -> None:
    """A run that exceeds its time limit fails as `timeout`."""
    listener = RecordingListener(tmp_path)
    listener.time = 11.0
    _, end = run_training(tmp_path, *TINY["ppo"], *SHORT, listener=listener, timeout=10.0)
    assert (end.failure, end.reason) == (Failure.TIMEOUT, overtime_text(10.0))


@pytest.mark.filterwarnings("ignore:invalid value encountered")
@pytest.mark.parametrize("algorithm", ["ppo", "dqn", "sac"])
def test_a_diverged_learner_fails_as_nan(algorithm: str, tmp_path: Path) -> None:
    """A learning rate of 1e30 ends the run with the failure `nan` and without a score."""
    words = (*TINY[algorithm], "algorithm.learning_rate=1e30", "budget.steps=1000")
    listener, end = run_training(tmp_path, *words, "budget.evaluation_every=null")
    assert (end.ending, end.failure) == (Ending.FAILED, Failure.NAN)
    assert not any(isinstance(e, Evaluated) for e in listener.events)
    assert end.weights is None


def test_nan_in_a_parameter_that_the_learner_replaced_fails_at_the_next_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A learner that puts NaN into a new parameter ends as `nan` before it is evaluated again."""
    library_update = PPO.train

    def update(learner: PPO) -> None:
        library_update(learner)
        if learner.num_timesteps == 384:
            value = learner.policy.value_net.bias
            learner.policy.value_net.bias = torch.nn.Parameter(torch.full_like(value, np.nan))

    monkeypatch.setattr(PPO, "train", update)
    words = ("algorithm.n_steps=128", "budget.steps=1024", "budget.evaluation_every=128")
    listener, end = run_training(tmp_path, *TINY["ppo"], *words, lean=False)
    reason = "a parameter is no finite number at step 384"
    assert (Failure.NAN, reason, 384) == (end.failure, end.reason, end.step)
    assert [128, 256, 384] == [e.step for e in listener.events if isinstance(e, Evaluated)]
    assert end.weights is None


@pytest.mark.parametrize("kind", ["dummy", "subprocess"])
@pytest.mark.parametrize(
    ("fault", "failure", "reason"),
    [
        ("raise", Failure.ENVIRONMENT, "step 100: RuntimeError: the motor is on fire"),
        ("nan_observation", Failure.ENVIRONMENT, "step 100: observation[2] is nan"),
        ("infinite_reward", Failure.ENVIRONMENT, "step 100: reward is inf"),
        ("array_reward", Failure.ENVIRONMENT, "step 100: reward is no single number"),
        ("shape", Failure.ENVIRONMENT, "step 100: observation has shape (3,), declared is (4,)"),
    ],
)
def test_a_bad_environment_is_named_with_step_and_field(
    fault: str,
    failure: Failure,
    reason: str,
    kind: str,
    tmp_path: Path,
) -> None:
    """A fault of an environment ends the run; the reason names the step and the field."""
    _, end = train_odd(tmp_path, fault, kind=kind)
    assert (failure, reason) == (end.failure, end.reason)


def test_missing_memory_is_the_machines_failure(tmp_path: Path) -> None:
    """A MemoryError fails the run as `out_of_memory`, which is retried."""
    _, end = train_odd(tmp_path, "memory")
    assert Failure.OUT_OF_MEMORY is end.failure


def test_a_program_that_exits_is_no_success(tmp_path: Path) -> None:
    """`sys.exit(0)` inside an environment counts as a crash."""
    _, end = train_odd(tmp_path, "sys_exit")
    assert (end.failure, end.reason) == (Failure.CRASHED, "the program called sys.exit(0)")


def test_shaping_does_not_touch_the_score(tmp_path: Path) -> None:
    """A wrapper that multiplies rewards by ten does not change the reported returns."""
    wrappers = "environment.wrappers=[{name: 'odd_wrappers:TenTimes', arguments: {}}]"
    imports = "environment.imports=[odd_wrappers]"
    listener, _ = run_training(tmp_path, *TINY["ppo"], *SHORT, imports, wrappers)
    final_evaluation = [e for e in listener.events if isinstance(e, Evaluated)][-1]
    assert final_evaluation.returns == tuple(map(float, final_evaluation.lengths))


@pytest.mark.parametrize("algorithm", ["ppo", "ars"])
def test_a_fault_in_environment_processes_ends_the_run(algorithm: str, tmp_path: Path) -> None:
    """A fault of environments in three processes ends the run, with PPO and with ARS."""
    words = (*ODD, "environment.arguments.fault=raise", "environment.vector.kind=subprocess")
    vector_words = ("environment.vector.count=3", *SHORT)
    training_words = (
        *(w for w in words if algorithm == "ppo" or "n_steps" not in w),
        *vector_words,
    )
    _, end = run_training(
        tmp_path, *training_words, f"algorithm={algorithm}", "budget.evaluation_every=null"
    )
    assert (Failure.ENVIRONMENT, True) == (end.failure, "motor is on fire" in str(end.reason))


@pytest.mark.parametrize(
    ("fault", "failure"),
    [("exit", Failure.CRASHED), ("segfault", Failure.CRASHED), ("memory", Failure.OUT_OF_MEMORY)],
)
def test_the_death_of_an_environment_process_is_reported(
    fault: str,
    failure: Failure,
    tmp_path: Path,
) -> None:
    """A dead environment process is noticed, although other processes hold its pipe open."""
    _, end = train_odd(tmp_path, fault, kind="subprocess", count=3)
    assert failure is end.failure


def test_errors_while_closing_do_not_change_the_result(
    tmp_path: Path,
) -> None:
    """A run whose environment exits in close() still completes."""
    listener, end = train_odd(tmp_path, "sys_exit", "environment.id=odd_environments:Late-v0")
    assert Ending.COMPLETED is end.ending
    assert listener.events[-1] == end


def test_an_error_after_a_stop_request_is_no_failure(tmp_path: Path) -> None:
    """An error after a stop request leaves the run interrupted."""

    class LateStopRequest(RecordingListener):
        """Returns a stop request only at the second call for a step."""

        def stopping(self) -> StopRequest | None:
            self.request_at, previous_step = len(self.beats), self.request_at
            return (
                StopRequest(Ending.INTERRUPTED, "enough")
                if previous_step == len(self.beats)
                else None
            )

    words = (*ODD, "environment.arguments.fault=raise", *SHORT)
    _, end = run_training(tmp_path, *words, listener=LateStopRequest(tmp_path))
    assert (Ending.INTERRUPTED, None) == (end.ending, end.failure)


def test_a_device_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """Without an accelerator, `cuda` is refused and not replaced by the CPU."""
    if torch.cuda.is_available():
        pytest.skip("there is an accelerator")
    listener = RecordingListener(tmp_path)
    spec = replace(spec_of(*TINY["ppo"], *SHORT), compute={"threads": 1, "device": "cuda"})
    end = train(assemble(spec), listener, tmp_path)
    assert (Failure.USER, True) == (end.failure, "use compute.device=cpu" in str(end.reason))
