"""A script in the style of CleanRL becomes a run with two changed lines."""

import json
import os
import sys
from pathlib import Path

import pytest
from cleanrl_script import COMMAND, SCRIPT, changed_script
from command_line import give
from killed_command import kill_after

from rlexp.errors import ConfigError

WORDS = (
    *("run", "algorithm=external", f"algorithm.command={COMMAND}", "environment=cartpole"),
    *("seeds.test=1", "budget.steps=500", "budget.final_episodes=3", "experiment=alpha"),
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the workspace, without variables that hide what a script imports."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RLEXP_RUNS", raising=False)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def test_an_unchanged_script_is_refused(folder: Path) -> None:
    """An unchanged script is refused in one line before it trains, and nothing is written."""
    Path("dqn.py").write_text(SCRIPT)
    with pytest.raises(ConfigError, match=r"dqn\.py cannot report a final evaluation.*") as error:
        give(folder, *WORDS)
    assert "\n" not in str(error.value)
    assert "rlexp.final_evaluation(environment, act, step)" in str(error.value)
    assert not list(Path("runs").glob("alpha*"))


def test_two_changed_lines_are_enough(folder: Path) -> None:
    """With two changed lines the run has a score, and the curve of its event file."""
    pytest.importorskip("tensorboard")
    text = changed_script()
    changed = [line for line in text.splitlines() if line not in SCRIPT.splitlines()]
    assert 2 == len(changed)
    Path("dqn.py").write_text(text)
    output = give(folder, *WORDS)
    assert "every planned run has a score (1 of 1)" in output
    [journal] = folder.glob("runs/alpha/*/attempts/1/events.jsonl")
    entries = [json.loads(line) for line in journal.read_text().splitlines()]
    names = {name for entry in entries for name in entry.get("metrics", {})}
    assert {"charts/episodic_return", "losses/td_loss"} <= names
    [final] = [entry for entry in entries if entry.get("final")]
    assert (500, 3) == (final["step"], len(final["returns"]))


def test_a_killed_script_ends_with_the_same_numbers(folder: Path) -> None:
    """After kill -9 in its training, the same command begins anew and writes the same final evaluation."""
    pytest.importorskip("tensorboard")
    Path("dqn.py").write_text(changed_script())
    words = WORDS[1:-1]
    give(folder, "run", *words, "experiment=whole")
    kill_after("files/events.out.tfevents*", words, folder)
    give(folder, "run", *words, "experiment=killed")
    [whole] = folder.glob("runs/whole/*/attempts/1/results.jsonl")
    [killed] = folder.glob("runs/killed/*/attempts/2/results.jsonl")
    assert whole.read_text().splitlines()[-1] == killed.read_text().splitlines()[-1]
