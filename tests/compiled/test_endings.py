"""Compiled runs are pruned, stopped, extended, lost to NaN and killed as other runs are."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from last_words import last_words
from trainings import RecordingListener, run_training, spec_of, without_times

from rlexp.algorithms.compiled import training
from rlexp.app.execution.run_process import assemble
from rlexp.protocol.spec import Parent
from rlexp.records.events import Ending, Evaluated, Failure, RunEnded, RunStarted, StopRequest
from rlexp.records.run import RunRecord, State
from rlexp.training.training_run import train

REPLAY = (
    *("algorithm.learning_starts=20", "algorithm.buffer_size=90", "algorithm.batch_size=16"),
    *("algorithm.train_freq=3", "algorithm.gradient_steps=2", "environment.vector.count=2"),
)
KINDS = {
    "compiled_ppo": (
        *("environment=cartpole", "environment.vector.count=2", "algorithm.n_steps=8"),
        *("algorithm.batch_size=8", "algorithm.n_epochs=2"),
    ),
    # The rate of random actions is constant, so that it does not depend on the length of training.
    "compiled_dqn": (
        *("environment=cartpole", *REPLAY, "algorithm.target_update_interval=8"),
        *("algorithm.exploration_initial_eps=0.1", "algorithm.exploration_final_eps=0.1"),
    ),
    "compiled_sac": ("environment=pendulum", *REPLAY),
}
"""Each compiled algorithm with short rollouts, whose buffer is soon full."""
SHORT, LONG = 100, 260

kinds = pytest.mark.parametrize("kind", KINDS)


def words_of(kind: str, *words: str) -> tuple[str, ...]:
    """A small training of an algorithm, with further words."""
    ends = (
        "budget.evaluation_every=32",
        "budget.evaluation_episodes=1",
        "budget.final_episodes=2",
    )
    task = ("environment.max_episode_steps=20", "agent.network=[8]", f"budget.steps={LONG}")
    return (f"algorithm={kind}", *KINDS[kind], *task, *ends, *words)


def asked(folder: Path, ending: Ending, step: int, rung: int | None = None) -> RecordingListener:
    """A listener that asks a run to end at a step."""
    listener = RecordingListener(folder)
    listener.request, listener.request_at = StopRequest(ending, "asked", rung), step
    return listener


@pytest.fixture
def _short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each chunk is one rollout, so that a request is seen at its end."""
    monkeypatch.setattr(training, "CHUNK_SECONDS", 0.0)


@kinds
@pytest.mark.usefixtures("_short_chunks")
def test_a_pruned_run_ends_at_its_rung(kind: str, tmp_path: Path) -> None:
    """A pruned run ends after its chunk, and its record holds the evaluations up to its rung."""
    words = words_of(kind)
    _, end = run_training(
        tmp_path, *words, listener=(at := asked(tmp_path, Ending.PRUNED, 160, 64))
    )
    start = RunStarted(time=0.0, attempt=1, pid=1, host="here")
    record = RunRecord.fold(spec_of(*words), [[start, *at.events]])
    assert (Ending.PRUNED, 64, "asked") == (end.ending, end.rung, end.reason)
    assert (State.PRUNED, None) == (record.state, record.score)
    assert [32, 64] == [evaluation.step for evaluation in record.evaluations]
    assert 160 <= end.step < LONG


@kinds
@pytest.mark.usefixtures("_short_chunks")
def test_a_request_to_stop_ends_a_run_after_its_chunk(kind: str, tmp_path: Path) -> None:
    """A run that is asked to stop is interrupted, has no model, and continues to the same weights."""
    words = words_of(kind)
    _, whole = run_training(tmp_path / "whole", *words)
    listener = asked(tmp_path / "stopped", Ending.INTERRUPTED, 100)
    _, end = run_training(tmp_path / "stopped", *words, listener=listener, checkpoint_every=40)
    assert (Ending.INTERRUPTED, "asked") == (end.ending, end.reason)
    assert 100 <= end.step < 140
    assert not (tmp_path / "stopped" / "model.zip").exists()
    saved = listener.saved_checkpoint(-1)
    _, again = run_training(tmp_path / "again", *words, checkpoints=[saved])
    assert saved.step > 0
    assert whole.weights is not None
    assert whole.weights == again.weights


@kinds
def test_nan_is_a_failure_and_no_score(kind: str, tmp_path: Path) -> None:
    """A learning rate that blows up fails the run as nan, without a model and a final score."""
    words = words_of(kind, "algorithm.learning_rate=1e38")
    listener, end = run_training(tmp_path, *words)
    assert (Ending.FAILED, Failure.NAN) == (end.ending, end.failure)
    assert not [e for e in listener.events if isinstance(e, Evaluated) and e.final]
    assert not (tmp_path / "model.zip").exists()


def extended(
    folder: Path, words: tuple[str, ...], first: RecordingListener
) -> tuple[Any, RunEnded]:
    """Continue a training of `SHORT` steps, which kept its last copy, to `LONG` steps."""
    saved, copy = first.saved_checkpoint(-1), first.checkpoints[-1]
    assert copy.digest is not None
    parent = Parent(run="0" * 64, step=copy.step, digest=copy.digest)
    listener = RecordingListener(folder)
    folder.mkdir()
    made = assemble(replace(spec_of(*words), parent=parent))
    return listener, train(made, listener, folder, [saved])


@kinds
def test_an_extended_training_equals_a_longer_one(kind: str, tmp_path: Path) -> None:
    """Weights and evaluations are those of a training of that length that was never extended."""
    words = words_of(kind)
    long, whole = run_training(tmp_path / "whole", *words)
    first, _ = run_training(
        tmp_path / "short", *words_of(kind, f"budget.steps={SHORT}"), keep_last=True
    )
    listener, end = extended(tmp_path / "extended", words, first)
    assert whole.weights is not None
    assert whole.weights == end.weights
    later, expected = (
        without_times([e for e in events if isinstance(e, Evaluated) and e.step > SHORT + 16])
        for events in (listener.events, long.events)
    )
    assert expected
    assert later == expected


def command(folder: Path, kind: str) -> subprocess.Popen[bytes]:
    """Start the command of one run with many checkpoints, some seconds long."""
    words = words_of(kind, "budget.steps=6000", "budget.checkpoint_every=300", "seeds.test=1")
    words = (*words, "experiment=killed", "executor.workers=1", "budget.evaluation_every=2000")
    line = [sys.executable, "-m", "rlexp", "run", *last_words(*words), "--no-probe", "--quiet"]
    folder.mkdir(exist_ok=True)
    return subprocess.Popen(line, cwd=folder)


def journal(folder: Path) -> list[dict[str, Any]]:
    """The events of all attempts at the run, in their order."""
    files = sorted(folder.glob("runs/killed/*-test-0-*/attempts/*/events.jsonl"))
    text = "".join(file.read_text() for file in files)
    # The last line may still be written.
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


@pytest.mark.parametrize("kind", ["compiled_dqn", "compiled_sac"])
def test_a_killed_run_ends_with_the_same_weights(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After kill -9 of its process, a run goes on from a checkpoint and ends with the same sha256."""
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "home"))
    assert 0 == command(tmp_path / "whole", kind).wait(300)
    killed, deadline = command(tmp_path / "killed", kind), time.monotonic() + 200
    # The event follows the checkpoint, whose folder has another name until it is complete.
    while not any(row["event"] == "checkpointed" for row in journal(tmp_path / "killed")):
        assert time.monotonic() < deadline, "the run never wrote a checkpoint"
        time.sleep(0.01)
    os.kill(journal(tmp_path / "killed")[0]["pid"], signal.SIGKILL)
    assert 0 == killed.wait(300)
    (whole, again) = (journal(tmp_path / name) for name in ("whole", "killed"))
    assert 2 == sum(row["event"] == "started" for row in again)
    assert 1 == sum(row["event"] == "continued" for row in again)
    assert whole[-1]["weights"] is not None
    assert whole[-1]["weights"] == again[-1]["weights"]
