"""PPO, A2C and DQN learn as well as their committed baselines say; the GitHub Action judges it, too.

On the processor of the baselines, equal weights pass in seconds. On another one, scores decide, which takes
minutes; there, the ordinary tests judge PPO only.
To write a baseline again, for example after a change of a learner that was meant:
`rlexp gate --write tests/gates/ppo.json WORDS`, with the words, the margin and the seeds of the file.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import typed
from in_full import IN_FULL, long
from warm_processes import warm_up

from rlexp.cli.exit_codes import UNDECIDED, WORSE
from rlexp.executors import local
from rlexp.store.provenance import machine

ROOT = Path(__file__).parents[3]
GATES = sorted((ROOT / "tests" / "gates").glob("*.json"))
ACTION = ROOT / ".github" / "actions" / "gate" / "action.yml"
WITHOUT_LEARNING = "algorithm.learning_rate=1e-9"
PROCESSOR = json.loads(GATES[0].read_text())["versions"]["processor"]
INPUT = re.compile(r"\$\{\{ inputs\.([a-z-]+) \}\}")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty workspace, whose server is forked from a warm process."""
    warm_up(monkeypatch, local)
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    return tmp_path


def test_there_are_three_gates() -> None:
    """The baselines are of three learners, and each has its margin."""
    assert ["a2c", "dqn", "ppo"] == [gate.stem for gate in GATES]
    assert all(json.loads(gate.read_text())["margin"] for gate in GATES)


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.stem)
@pytest.mark.skipif(
    not IN_FULL and PROCESSOR != machine()["processor"],
    reason="trains for minutes on another processor than that of the baselines: make test-all",
)
def test_learning_is_not_worse_than_its_baseline(gate: Path, folder: Path) -> None:
    """The present code learns as well as when the baseline was written."""
    printed = typed(folder, "gate", str(gate))
    if printed.code == UNDECIDED:
        pytest.skip("the gate is undecided on this processor")
    assert 0 == printed.code, printed.out + printed.err


@long
@pytest.mark.parametrize("learner", ["a2c", "ppo"])
def test_a_learner_that_does_not_learn_is_worse(learner: str, folder: Path) -> None:
    """With a learning rate of nearly 0, a gate finds the loss; DQN's scores spread too widely for that."""
    gate = ROOT / "tests" / "gates" / f"{learner}.json"
    printed = typed(folder, "gate", str(gate), WITHOUT_LEARNING)
    assert WORSE == printed.code, printed.out + printed.err
    assert "\nWorse: " in printed.out


@pytest.fixture
def fake_rlexp(tmp_path: Path) -> str:
    """A command that notes its arguments and ends with the exit code of its last word."""
    program = tmp_path / "rlexp"
    program.write_text(
        f"#!{sys.executable}\nimport sys, json\n"
        "json.dump(sys.argv[1:], open('arguments.json', 'w'))\n"
        "sys.exit(int(sys.argv[-1].partition('=')[2]))\n"
    )
    program.chmod(0o755)
    return str(program)


def step(folder: Path, **inputs: str) -> tuple[int, str, str]:
    """Execute the steps of the action as GitHub does; returns exit code, outputs and summary."""
    action: dict[str, Any] = yaml.safe_load(ACTION.read_text())
    values = {name: part.get("default", "") for name, part in action["inputs"].items()} | inputs
    outputs, summary = folder / "outputs", folder / "summary"
    code = 0
    for part in action["runs"]["steps"]:
        filled = {
            name: INPUT.sub(lambda found: values[found[1]], text)
            for name, text in part["env"].items()
        }
        github = {"GITHUB_OUTPUT": str(outputs), "GITHUB_STEP_SUMMARY": str(summary)}
        # GitHub executes `shell: bash` with these options.
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", part["run"]]
        done = subprocess.run(
            command, cwd=folder, env={**os.environ, **github, **filled}, check=False
        )
        code = code or done.returncode
    return code, outputs.read_text(), summary.read_text() if summary.exists() else ""


@pytest.mark.parametrize(
    ("ends", "undecided", "code", "decision"),
    [
        (0, "fail", 0, "pass"),
        (4, "pass", 4, "worse"),
        (5, "fail", 5, "undecided"),
        (5, "pass", 0, "undecided"),
        (1, "pass", 1, "failed"),
        (130, "pass", 130, "failed"),
    ],
)
def test_the_action_passes_on_what_the_gate_says(
    ends: int, undecided: str, code: int, decision: str, fake_rlexp: str, tmp_path: Path
) -> None:
    """Each exit code has its decision, and only an undecided gate can be allowed to pass."""
    words = f"'agent.network=[8, 8]' end={ends}"
    result = step(
        tmp_path, baseline="a b.json", words=words, undecided=undecided, rlexp=fake_rlexp
    )
    assert (code, f"decision={decision}\n", "") == result
    given = json.loads((tmp_path / "arguments.json").read_text())
    assert ["gate", "a b.json", "--budget", "30", "agent.network=[8, 8]", f"end={ends}"] == given


def test_no_input_is_executed_as_shell() -> None:
    """The shell of the action sees inputs as variables only."""
    action = yaml.safe_load(ACTION.read_text())
    assert all("${{" not in part["run"] for part in action["runs"]["steps"])
    assert "composite" == action["runs"]["using"]


def test_the_action_judges_with_the_real_command(tmp_path: Path) -> None:
    """The action passes for the baseline of PPO, and the summary of the step shows the answer."""
    code, outputs, summary = step(
        tmp_path, baseline=str(GATES[-1]), rlexp=f"{sys.executable} -m rlexp"
    )
    assert (0, "decision=pass\n") == (code, outputs)
    assert summary.startswith("### ppo on CartPole-v1: ")


def test_the_action_judges_nothing_with_wrong_quotes(fake_rlexp: str, tmp_path: Path) -> None:
    """Words with an open quote end as failed, before the gate could judge without them."""
    words = "end=0 'agent.network=[8, 8]"
    result = step(tmp_path, baseline="base.json", words=words, rlexp=fake_rlexp)
    assert (2, "decision=failed\n", "") == result
    assert not (tmp_path / "arguments.json").exists()


def test_the_action_takes_blank_words_for_none(fake_rlexp: str, tmp_path: Path) -> None:
    """Words of spaces alone add no argument."""
    step(tmp_path, baseline="base.json", words="  \n", budget="end=0", rlexp=fake_rlexp)
    given = json.loads((tmp_path / "arguments.json").read_text())
    assert ["gate", "base.json", "--budget", "end=0"] == given
