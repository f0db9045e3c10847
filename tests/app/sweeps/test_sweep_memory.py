"""A sweep is refused before it starts if a trial with large searched values cannot fit."""

import re
from pathlib import Path
from typing import Any

import pytest
from finished_runs import study
from quick_parts import quick_parts

from rlexp.app.commands.train.sweep import SweepOptions, sweep
from rlexp.app.execution import memory_plan
from rlexp.app.execution.checks import compatibility
from rlexp.app.execution.checks.compatibility import EnvironmentSpaces
from rlexp.app.observer import SilentObserver
from rlexp.app.plans import SweepOutline
from rlexp.errors import ConfigError

quick = pytest.fixture(autouse=True)(quick_parts)

PPO = """# @package _global_
defaults:
  - override /algorithm: ppo
sweep:
  space:
    algorithm.gamma: [0.9, 0.99]
"""
DQN = PPO.replace("ppo", "dqn") + "algorithm: {buffer_size: 1000}\n"
"""A sweep whose default configuration fits."""
BOTH = """# @package _global_
sweep:
  space:
    algorithm: choice(ppo, dqn)
    algorithm.buffer_size:
      values: [1000, 150_000]
      when: {algorithm: dqn}
"""
"""A sweep in which only one of the learners has a buffer."""
FRAME = 10_000
"""Bytes of an observation."""
WORDS = ("environment=cartpole", "budget.steps=1_000_000", "sweep.trials=4", "executor.workers=2")


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine of 4 GB, and observations of 10 kB."""

    def spaces(_: str, environment: Any) -> EnvironmentSpaces:
        vector = environment.vector
        frame = FRAME * max(vector.frame_stack, 1)
        return EnvironmentSpaces(
            *(("Box",), "Discrete", vector.count),
            masked=False,
            frame=frame,
            transition=2 * frame,
            light=True,
        )

    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(compatibility, "_spaces", spaces)
    monkeypatch.setattr(memory_plan, "memory_limit", lambda: 4 * 10**9)


def refusal(folder: Path, definition: str, *words: str) -> str:
    """Why a sweep is refused; empty if it may start."""
    given = {word.partition("=")[0]: word for word in (*WORDS, *words)}
    (folder / "sweeps").mkdir(exist_ok=True)
    (folder / "sweeps" / "mine.yaml").write_text(definition)
    options = SweepOptions(dry_run=True, probe=False)
    try:
        outline = sweep("mine", [*given.values()], options, study(folder), SilentObserver())
    except ConfigError as error:
        assert not (folder / "runs").exists()
        return str(error)
    assert isinstance(outline, SweepOutline)
    return ""


@pytest.mark.parametrize(
    ("definition", "words", "offered"),
    [
        (
            DQN,
            ["algorithm.buffer_size=interval(1000,150_000)"],
            ["executor.workers=1", "algorithm.buffer_size="],
        ),
        (
            DQN,
            ["algorithm.buffer_size=1000,150_000"],
            ["executor.workers=1", "algorithm.buffer_size="],
        ),
        (BOTH, [], ["executor.workers=1"]),
        (
            DQN,
            ["algorithm.buffer_size=60_000", "environment.vector.frame_stack=1,2"],
            ["executor.workers=1", "algorithm.buffer_size="],
        ),
    ],
)
def test_large_searched_values_are_refused_with_words_that_make_them_fit(
    tmp_path: Path, definition: str, words: list[str], offered: list[str]
) -> None:
    """The refusal says that a trial is too large, and any one of its words lets the sweep start."""
    refused = refusal(tmp_path, definition, *words)
    assert "\n" not in refused
    assert ", the largest searched values: " in refused
    said = re.findall(r"[\w.]+=\w+", refused.partition(": add ")[2])
    assert len(offered) == len(said)
    for word, beginning in zip(said, offered, strict=True):
        assert word.startswith(beginning)
        assert "" == refusal(tmp_path, definition, *words, word)


def test_a_default_outside_the_space_is_refused_too(tmp_path: Path) -> None:
    """Trial 0 has the default of the key, however small the searched values are."""
    words = ("algorithm.buffer_size=interval(1000,50_000)",)
    large = DQN.replace("buffer_size: 1000", "buffer_size: 1_000_000")
    refused = refusal(tmp_path, large, *words)
    assert "CartPole-v1, the default configuration: 20 GB" in refused
    assert refused.endswith("(then it is not searched)")
    assert "" == refusal(tmp_path, DQN, *words)


@pytest.mark.parametrize(
    ("definition", "words", "expected"),
    [
        (
            PPO,
            ["algorithm.n_steps=128,300_000"],
            "choose a smaller algorithm.n_steps or environment.vector.count",
        ),
        (
            PPO,
            ["algorithm.n_steps=20_000", "environment.vector.count=1,16"],
            "choose a smaller algorithm.n_steps or environment.vector.count",
        ),
        (DQN, ["algorithm.batch_size=32,400_000"], "choose a smaller algorithm.batch_size"),
    ],
)
def test_large_rollouts_and_minibatches_are_refused(
    tmp_path: Path, definition: str, words: list[str], expected: str
) -> None:
    """Rollouts, environments and minibatches count with their largest searched values."""
    assert refusal(tmp_path, definition, *words).endswith(expected)


@pytest.mark.parametrize(
    ("definition", "word"),
    [
        (PPO, "algorithm.n_steps=128,2048"),
        (DQN, "algorithm.gamma=0.9,0.99"),
        (BOTH.replace("150_000", "50_000"), "executor.workers=2"),
    ],
)
def test_a_search_of_small_values_may_start(tmp_path: Path, definition: str, word: str) -> None:
    """Values that fit are not refused, nor are parameters that take no memory."""
    assert "" == refusal(tmp_path, definition, word)
