"""Real commands whose runs are training scripts that fail, are killed, swept or displayed."""

import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from in_full import long
from last_words import last_words
from studies import StudyFolder, new_study, wait_until

from rlexp.app.commands.exchange.load import load

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "external.md").read_text()
BEGIN = """
import json, os, signal, subprocess, sys, time
told = json.load(open(os.environ["RLEXP_CONFIGURATION"]))
settings = told["settings"]
results = open(told["results"], "a", buffering=1)
def write(step, **values): results.write(json.dumps({"step": step, **values}) + "\\n")
"""
FAULTS = (
    BEGIN
    + """
child = subprocess.Popen(["sleep", "600"])
json.dump([os.getpid(), child.pid], open(told["folder"] + "/pids", "w"))
match settings["fault"]:
    case "error":
        raise ValueError("I cannot go on")
    case "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    case "hang":
        time.sleep(600)
write(100, returns=[1, 2], final=True)
"""
)
SWEPT = (
    BEGIN
    + """
print("trained with", settings["lr"])
for step in range(50, 151, 50):
    write(step, metrics={"loss": settings["lr"]})
    height = -abs(settings["lr"] - 0.3) + told["seed"] / 2**32 / 1000
    write(step, returns=[height])
write(150, returns=[height, height], final=True)
"""
)
CONTINUING = """
import json, os, signal
from rlexp.trainer import Trainer
run = Trainer.of_run()
saved = run.restored()
weight = json.loads(saved.path.read_text()) if saved else float(run.seed % 1000)
for step in range(saved.step if saved else 0, run.steps, 10):
    weight = weight * 1.5 % 1000
    after = step + 10
    run.report(after, loss=weight)
    if run.is_due(after):
        run.evaluated(after, [weight])
    if after % 30 == 0:
        run.checkpoint(after, lambda path: path.write_text(json.dumps(weight)))
    if run.settings["killed"] and run.attempt == 1 and after == 80:
        os.kill(os.getpid(), signal.SIGKILL)
run.evaluated(run.steps, [weight, weight + 1], final=True)
"""
SMALL = (
    "algorithm=external",
    "algorithm.name=mine",
    "algorithm.command={python} -S train.py",
    "budget.steps=100",
    "budget.evaluation_every=50",
    "budget.evaluation_episodes=1",
    "budget.final_episodes=2",
)


@pytest.fixture
def study(tmp_path: Path) -> Iterator[StudyFolder]:
    """A study for training scripts."""
    with new_study(tmp_path, warm=True) as study:
        yield study


def pids(study: StudyFolder) -> list[int]:
    """The ids of every process that a script has recorded."""
    paths = study.folder.glob("runs/*/*/attempts/*/files/pids")
    return [pid for path in paths for pid in json.loads(path.read_text() or "[]")]


def lives(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def test_each_end_has_its_name_and_nothing_lives_on(study: StudyFolder) -> None:
    """An error, a signal and a hang of a script are told apart, and no child process is left."""
    (study.folder / "train.py").write_text(FAULTS)
    code, output = study.give(
        "run", *SMALL, "algorithm.settings.fault=none,error,killed,hang", "experiment=x",
        "seeds.test=1", "executor.workers=4", "executor.hang_timeout=2",
    )  # fmt: skip
    assert code == 1, output
    runs_by_fault = {run["label"].partition("=")[2]: run for run in study.runs("x")}
    assert {
        "none": ("completed", None, 1, 1.5),
        "error": ("failed", "user", 1, None),
        "killed": ("failed", "crashed", 3, None),
        "hang": ("failed", "hung", 3, None),
    } == {
        k: (r["state"], r["failure"], r["attempts"], r["score"]) for k, r in runs_by_fault.items()
    }
    assert (
        "the script ended with code 1: ValueError: I cannot go on"
        == runs_by_fault["error"]["reason"]
    )
    assert "the script was killed by signal 9 (SIGKILL)" == runs_by_fault["killed"]["reason"]
    assert len(pids(study)) == 2 * 8
    assert [] == [pid for pid in pids(study) if lives(pid)]


def test_a_killed_script_continues_from_its_checkpoint(study: StudyFolder) -> None:
    """A script that was killed after a checkpoint ends with the score of one that was not."""
    (study.folder / "train.py").write_text(CONTINUING)
    code, output = study.give(
        "run", *last_words(*SMALL, "algorithm.command={python} train.py"),
        "algorithm.continues=true", "algorithm.settings.killed=false,true", "experiment=x", "seeds.test=1",
    )  # fmt: skip
    assert code == 0, output
    undisturbed, killed = sorted(study.runs("x"), key=lambda run: run["attempts"])
    assert (1, 2) == (undisturbed["attempts"], killed["attempts"])
    assert undisturbed["score"] == killed["score"]
    (event,) = study.events("x", "continued")
    assert (60, 1) == (event["step"], event["attempt"])
    folders = sorted(path.parent.name for path in study.folder.glob("runs/x/*/attempts/*/files"))
    assert ["1", "2"] == folders, "the folder of the killed attempt moves to the next one"


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=long, id="SIGTERM")]
)
def test_a_command_that_ends_takes_its_scripts_along(
    number: signal.Signals, study: StudyFolder
) -> None:
    """A killed or interrupted command leaves neither its script nor a child of the script."""
    (study.folder / "train.py").write_text(FAULTS)
    arguments = (*SMALL, "algorithm.settings.fault=hang", "seeds.test=1", "experiment=x")
    command = study.start("run", *arguments)
    wait_until(lambda: len(pids(study)) == 2)
    command.send_signal(number)
    output, _ = command.communicate(timeout=30)
    wait_until(lambda: not any(map(lives, pids(study))), 5.0)
    ended = [event["ending"] for event in study.events("x", "ended")]
    if number is signal.SIGTERM:
        assert (143, ["interrupted"]) == (command.returncode, ended), output
        assert "To continue: rlexp run algorithm=external" in output
    else:
        assert [] == ended


def test_a_sweep_over_a_script(study: StudyFolder) -> None:
    """A sweep over a script tunes, tests and tracks it, and refuses an edited script."""
    (study.folder / "train.py").write_text(SWEPT)
    arguments = (
        "sweep", *last_words(*SMALL, "budget.steps=150"), "algorithm.settings.lr=0.9", "tuner=random",
        "sweep.space.algorithm.settings.lr=interval(0.0, 1.0)", "sweep.trials=3", "seeds.tuning=2",
        "seeds.test=2", "sweep.allocation=fixed", "experiment=s",
        "tracker=[tensorboard]", "tracker.tensorboard.wait=100",
    )  # fmt: skip
    code, output = study.give(*arguments)
    assert code == 0, output
    records = load(study.folder / "runs" / "s")
    assert {"tuning": 3 * 2, "test": 2 * 2} == {
        str(phase): int((records.table["phase"] == phase).sum()) for phase in ("tuning", "test")
    }
    rates = {r.spec.algorithm["settings"]["lr"]: r.score for r in records.records}
    test_runs = [r for r in records.records if str(r.spec.phase) == "test"]
    best = min(rates, key=lambda rate: abs(rate - 0.3))
    assert {0.9, best} == {r.spec.algorithm["settings"]["lr"] for r in test_runs}
    events = [p.read_bytes() for p in (study.folder / "tensorboard").rglob("*tfevents*")]
    assert sum(b"loss" in content for content in events) >= 4
    (study.folder / "train.py").write_text(SWEPT + "# edited\n")
    code, output = study.give(*arguments)
    assert code == 2, output
    assert "sweep s exists with another definition" in output
    assert "algorithm.files.train.py" in output


def script_on_page(language: str) -> str:
    """The script that the documentation page shows in a language."""
    # A page may show shorter ones before.
    *_, script = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return str(script)


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[StudyFolder, str]]:
    """The example of the documentation page, run with a small budget."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with (
        new_study(tmp_path_factory.mktemp("study"), warm=True) as study,
        pytest.MonkeyPatch.context() as patch,
    ):
        # The page calls `python`, which is that of the active environment.
        patch.setenv("PATH", path)
        (study.folder / "ppo_in_one_file.py").write_text(script_on_page("python"))
        code, output = study.give(
            "run", "algorithm=external", "algorithm.command=python ppo_in_one_file.py",
            "algorithm.name=my_ppo", "environment=cartpole", "budget.steps=2048",
            "budget.evaluation_every=1024", "budget.evaluation_episodes=2",
            "budget.final_episodes=3", "seeds.test=1", "experiment=x",
        )  # fmt: skip
        assert code == 0, output
        yield study, output


def test_the_example_of_the_page_learns(example: tuple[StudyFolder, str]) -> None:
    """PPO in a single file beats a random policy (22.5) within 2,048 steps."""
    study, _ = example
    (run,) = study.runs("x")
    assert ("my_ppo", "completed", None) == (run["label"], run["state"], run["reason"])
    assert run["score"] > 45
    assert [1024, 2048, 2048] == [e["step"] for e in study.events("x", "evaluated")]
    assert study.events("x", "measured")


def test_what_needs_a_model_says_that_there_is_none(example: tuple[StudyFolder, str]) -> None:
    """`evaluate` and `export script` refuse a run of a script in one line."""
    study, _ = example
    run = f"x/{study.runs('x')[0]['run']}"
    commands: dict[str, Any] = {
        "evaluate": ("evaluate", run),
        "export": ("export", "script", run, "--output", "here"),
    }
    for arguments in commands.values():
        code, output = study.give(*arguments)
        assert (2, 1) == (code, len(output.splitlines())), output
        assert (
            "was trained by a script, so it has no stable-baselines3 model to evaluate" in output
        )
