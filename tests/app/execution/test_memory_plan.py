"""A plan that needs more memory than there is gets refused, with words that make it fit."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from finished_runs import study
from last_words import last_words

from rlexp.app.execution import memory_plan
from rlexp.app.execution.checks.compatibility import EnvironmentSpaces
from rlexp.app.execution.launch_settings import LaunchSettings
from rlexp.app.execution.memory_plan import (
    PROCESS_BYTES,
    check_memory,
    memory_of,
    with_fitting_workers,
)
from rlexp.app.execution.request import RunRequest, read_request
from rlexp.errors import ConfigError
from rlexp.executors.memory import memory_limit
from rlexp.protocol.identity import canonical
from rlexp.protocol.spec import RunSpec

GB = 10**9
FRAME = 4 * 84 * 84
PONG = EnvironmentSpaces(
    ("Box", "Image"), "Discrete", 1, masked=False, frame=FRAME, transition=2 * FRAME + 20
)
"""Four stacked pictures of an Atari game."""
WORDS = ("agent=cnn", "environment=cartpole", "budget.steps=10_000_000", "seeds.test=4")


def request(folder: Path, *words: str) -> RunRequest:
    """The request of a command."""
    return read_request(last_words(*WORDS, *words), study(folder))


def planned(
    folder: Path, *words: str, **settings: Any
) -> tuple[Sequence[RunSpec], LaunchSettings, dict[str, EnvironmentSpaces]]:
    """The runs of a command, how they are executed, and the spaces of their environments."""
    asked = request(folder, *words)
    launch = LaunchSettings(
        executor=asked.executor, threads=1, operational={}, command=("rlexp", "run"), **settings
    )
    return asked.specs(), launch, {canonical(spec.environment): PONG for spec in asked.specs()}


def check(folder: Path, *words: str, **settings: Any) -> str:
    """The refusal of a command's runs; empty if they fit."""
    try:
        check_memory(*planned(folder, *words, **settings))
    except ConfigError as error:
        return str(error)
    return ""


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of 16 GB."""
    monkeypatch.setattr(memory_plan, "memory_limit", lambda: 16 * GB)


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("algorithm=dqn", "executor.workers=1"), ["algorithm.buffer_size"]),
        (("algorithm=dqn", "executor.workers=2"), ["algorithm.buffer_size"]),
        (
            ("algorithm=dqn", "algorithm.buffer_size=100_000", "executor.workers=4"),
            ["executor.workers", "algorithm.buffer_size"],
        ),
        (
            (
                *("algorithm=dqn", "algorithm.buffer_size=300_000", "executor.workers=2"),
                "algorithm.replay_buffer_kwargs={handle_timeout_termination: false}",
                "algorithm.optimize_memory_usage=true",
            ),
            ["executor.workers", "algorithm.buffer_size"],
        ),
        (
            ("algorithm=dqn", "executor=slurm", "executor.memory=8G"),
            ["algorithm.buffer_size", "executor.memory"],
        ),
        (
            ("algorithm=dqn", "executor=ray", "executor.memory=8_000_000_000"),
            ["algorithm.buffer_size", "executor.memory"],
        ),
    ],
)
def test_each_offered_word_makes_the_runs_fit(
    tmp_path: Path, words: tuple[str, ...], offered: list[str]
) -> None:
    """The refusal is one line, and the command with any one of its words is accepted."""
    refusal = check(tmp_path, *words)
    assert "\n" not in refusal
    said = re.findall(r"[\w.]+=[\w.]+", refusal.partition("add ")[2])
    assert offered == [word.partition("=")[0] for word in said]
    for word in said:
        key = word.partition("=")[0]
        assert "" == check(tmp_path, *(w for w in words if not w.startswith(f"{key}=")), word)


def test_learners_without_a_replay_buffer_get_no_word_for_one(tmp_path: Path) -> None:
    """Where one learner has no replay buffer, a word that it does not know is not offered."""
    refusal = check(tmp_path, "algorithm=ppo,dqn", "executor.workers=1")
    assert refusal.endswith("an experiment of its own, with a smaller algorithm.buffer_size")
    huge = check(tmp_path, "algorithm=ppo", "algorithm.n_steps=1_000_000", "executor.workers=1")
    assert huge.endswith("choose a smaller algorithm.n_steps or environment.vector.count")


def test_recorded_runs_get_no_word_that_would_change_them(tmp_path: Path) -> None:
    """`rlexp resume` takes fewer workers, and no other size of a buffer."""
    words = ("algorithm=dqn", "algorithm.buffer_size=100_000", "executor.workers=4")
    assert check(tmp_path, *words, changeable=False).endswith(": add executor.workers=2")
    refusal = check(tmp_path, *words, changeable=False, override_option="--set")
    assert refusal.endswith(": add --set executor.workers=2")


@pytest.mark.parametrize(("size", "workers"), [(10_000, 4), (100_000, 2), (200_000, 1)])
def test_a_reproduction_takes_as_many_workers_as_fit(
    tmp_path: Path, size: int, workers: int
) -> None:
    """Fewer runs at a time change no number, so `rlexp reproduce` needs no word for that."""
    words = ("algorithm=dqn", f"algorithm.buffer_size={size}", "executor.workers=4")
    fitting = with_fitting_workers(*planned(tmp_path, *words))
    assert workers == fitting.executor.workers_for(1)


def test_a_reproduction_that_cannot_fit_is_refused(tmp_path: Path) -> None:
    """A run that needs more than the machine has is refused before it starts."""
    with pytest.raises(ConfigError, match="a run needs 57 GB of memory"):
        with_fitting_workers(*planned(tmp_path, "algorithm=dqn"))


def test_only_what_is_written_counts_unless_the_array_is_too_large(tmp_path: Path) -> None:
    """A short run fills a part of its buffer, but no array may be larger than the memory."""
    words = ("algorithm=dqn", "budget.steps=1000", "algorithm.batch_size=32")
    spec = request(tmp_path, *words).specs()[0]
    # The network reads pixels as numbers of four bytes.
    rest = PROCESS_BYTES + 32 * 2 * 4 * FRAME
    assert rest + 1000 * PONG.transition == memory_of(spec, PONG, 64 * GB).total
    assert rest + 1_000_000 * PONG.transition == memory_of(spec, PONG, 16 * GB).total


@pytest.mark.parametrize("words", [("algorithm=ppo",), ("algorithm=dqn", "executor=slurm")])
def test_what_fits_or_has_no_known_limit_is_accepted(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    """Small rollouts fit, and the memory of a cluster's default job is unknown."""
    assert "" == check(tmp_path, *words)


def test_a_small_machine_refuses_no_run_without_large_buffers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory of processes is only roughly known, so only buffers are a reason to refuse."""
    monkeypatch.setattr(memory_plan, "memory_limit", lambda: PROCESS_BYTES // 2)
    assert "" == check(tmp_path, "algorithm=ppo", "executor.workers=4")


@pytest.mark.parametrize(
    ("membership", "files", "expected"),
    [
        ("0::/jobs/mine\n", {"jobs/memory.max": "2000", "jobs/mine/memory.max": "max"}, 2000),
        ("0::/jobs/mine\n", {"jobs/memory.max": "9000", "jobs/mine/memory.max": "3000"}, 3000),
        ("4:memory:/mine\n", {"memory/mine/memory.limit_in_bytes": "4000"}, 4000),
        ("0::/elsewhere\n", {"memory.max": "5000"}, 5000),
    ],
)
def test_the_least_limit_of_the_control_groups_counts(
    tmp_path: Path, membership: str, files: dict[str, str], expected: int
) -> None:
    """A control group is limited by itself and by those above it, in versions 1 and 2."""
    for name, text in files.items():
        path = tmp_path / "groups" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "membership").write_text(membership)
    assert expected == memory_limit(tmp_path / "groups", tmp_path / "membership")
    assert memory_limit(tmp_path / "none", tmp_path / "membership") > GB // 10
