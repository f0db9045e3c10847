"""Compiled runs that one process executes in turn end with the bits of runs alone."""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands_in_turn import (
    Events,
    events_of,
    new_folder,
    processes,
    run,
    start,
    wait_for,
    weights,
)
from trainings import run_training, spec_of

from rlexp.algorithms.compiled import programs
from rlexp.algorithms.compiled.programs import beating, kept_program
from rlexp.app.execution.run_process import assemble
from rlexp.records.events import Ending


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for experiments, and for the compiled code of a user who has compiled nothing."""
    yield from new_folder(tmp_path_factory)


@pytest.fixture(scope="module")
def batch(folder: Path) -> Events:
    """Four seeds that one process has executed."""
    return run(folder, "batch", "seeds.test=4")


def test_one_process_executes_all_seeds(batch: Events) -> None:
    """Four seeds have one process, and weights of their own."""
    assert [1, 1, 1, 1] == [len(processes(rows)) for rows in batch.values()]
    assert 1 == len({pid for rows in batch.values() for pid in processes(rows)})
    assert 4 == len(set(weights(batch).values()))


def test_a_seed_alone_and_a_seed_added_later_have_the_same_bits(
    batch: Events, folder: Path
) -> None:
    """The last seed alone, and then the others beside it, end with the weights of the batch."""
    alone = run(folder, "grown", "seeds.test=[3]")
    assert weights(batch)[3] == weights(alone)[3]
    assert weights(batch) == weights(run(folder, "grown", "seeds.test=[3,0,1,2]"))


def test_a_kill_harms_no_other_run(batch: Events, folder: Path) -> None:
    """After kill -9 of the process, its run is tried again, and every run ends with the same bits."""
    command = start(folder, "killed", "seeds.test=4")
    experiment = folder / "runs" / "killed"
    wait_for(experiment, "*-test-1-*/checkpoints/*/manifest.json")
    os.kill(processes(events_of(experiment)[1])[0], signal.SIGKILL)
    assert 0 == command.wait(200)
    events = events_of(experiment)
    assert weights(batch) == weights(events)
    assert [1, 2, 1, 1] == [len(processes(events[seed])) for seed in range(4)]
    first, killed, after, last = (processes(events[seed]) for seed in range(4))
    assert first[0] == killed[0]
    # The repetition has a process to itself.
    assert killed[1] not in {after[0], last[0]}


def test_a_run_that_diverges_leaves_the_others_alone(batch: Events, folder: Path) -> None:
    """A learning rate that ends in NaN fails one run; the next one has its process and its bits."""
    grid = "algorithm.learning_rate=1e30,0.0003"
    run(folder, "diverging", grid, "seeds.test=1", code=1)
    journals = sorted((folder / "runs" / "diverging").glob("*-test-0-*/attempts/1/events.jsonl"))
    rows = [[json.loads(n) for n in journal.read_text().splitlines()] for journal in journals]
    ends = {row[-1]["ending"]: row[-1] for row in rows}
    assert "nan" == ends["failed"]["failure"]
    assert weights(batch)[0] == ends["completed"]["weights"]
    assert 1 == len({pid for row in rows for pid in processes(row)})


def test_a_program_is_kept_for_other_seeds_and_rates(tmp_path: Path) -> None:
    """Seeds and continuous hyperparameters share a program; a number of steps or a twin does not."""

    def program(*words: str, seed: int = 0) -> Any:
        task = () if "environment=acrobot" in words else ("environment=cartpole",)
        size = () if "algorithm.n_steps=128" in words else ("algorithm.n_steps=64",)
        spec = spec_of("algorithm=compiled_ppo", *task, *size, *words, seed=seed)
        learner: Any = assemble(spec).build(tmp_path)
        return kept_program(learner._program())

    first = program()
    continuous = ("learning_rate", "gamma", "ent_coef", "clip_range", "gae_lambda", "vf_coef")
    assert first is program(*(f"algorithm.{name}=0.1" for name in continuous), seed=1)
    assert first is not program("algorithm.n_steps=128")
    assert first is not program("environment=acrobot")
    assert first is not program("environment.max_episode_steps=20")


def test_settings_that_only_look_equal_are_kept_apart() -> None:
    """0.0 and -0.0, 1 and True, and arrays of two types are other settings."""
    comparable = programs.comparable
    zero, ones = 0.0, np.ones(2)
    assert comparable(zero) != comparable(-zero)
    assert comparable(1) != comparable(True)
    assert comparable(ones) != comparable(ones.astype(np.float32))
    assert comparable(ones) == comparable(ones.copy())
    with pytest.raises(TypeError, match="object has no known equality"):
        comparable(object())


class Alive:
    """A callback that counts its heartbeats."""

    def __init__(self) -> None:
        self.beats = 0

    def beat(self) -> None:
        """Count a heartbeat."""
        self.beats += 1


def test_heartbeats_go_on_while_a_program_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long compilation sends heartbeats up to a limit, and none after its end."""
    monkeypatch.setattr(programs, "BEAT_EVERY", 0.01)
    callback = Alive()
    with beating(callback):
        while callback.beats < 5:
            time.sleep(0.01)
    ended = callback.beats
    time.sleep(0.1)
    assert ended == callback.beats
    monkeypatch.setattr(programs, "MOST_BEATS", 3)
    endless = Alive()
    with beating(endless):
        time.sleep(0.3)
    assert 3 == endless.beats


def test_a_training_sends_heartbeats_while_it_compiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before its first step, a training whose program is new sends many heartbeats."""
    monkeypatch.setattr(programs, "BEAT_EVERY", 0.001)
    words = ("algorithm=compiled_ppo", "environment=cartpole", "environment.vector.count=4")
    sizes = ("algorithm.n_steps=16", "algorithm.batch_size=32", "agent.network=[24,8]")
    ends = ("budget.steps=128", "budget.evaluation_every=null", "budget.final_episodes=2")
    listener, ended = run_training(tmp_path, *words, *sizes, *ends)
    assert Ending.COMPLETED is ended.ending, ended.reason
    assert listener.beats.count(0) > 50


def compiled_code(folder: Path) -> dict[Path, int]:
    """Every file of compiled code with the time at which it was written."""
    files = (folder / "rlexp" / "compiled").rglob("*.program")
    return {file: file.stat().st_mtime_ns for file in files}


def test_a_second_command_compiles_nothing(batch: Events, folder: Path) -> None:
    """A command with other seeds and another rate uses the code that the first one compiled."""
    before = compiled_code(folder)
    assert before
    run(folder, "second", "seeds.test=[7]", "algorithm.learning_rate=0.001")
    assert before == compiled_code(folder)
