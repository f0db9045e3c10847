"""The Python API returns the results of the commands, prints nothing and works in notebooks."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest
from quick_parts import quick_parts
from stored_runs import configuration, stored

import rlexp
from rlexp.app.commands.list_runs import ExperimentRow
from rlexp.app.commands.run import RunOutcome
from rlexp.app.commands.show import ExperimentDetails
from rlexp.app.plans import RunPlan
from rlexp.errors import ConfigError, RlexpError
from rlexp.store.layout import Layout

WORDS = ("algorithm=ppo", "environment=cartpole", "experiment=tiny", "seeds.test=2")
SMALL = (
    *("algorithm.n_steps=32", "algorithm.batch_size=32", "budget.steps=64"),
    *("budget.final_episodes=1", "budget.evaluation_every=null", "executor.workers=1"),
)
LONG = ("budget.steps=100_000_000", "budget.evaluation_every=null")
INTERRUPTED = f"""
import rlexp
try:
    rlexp.run(*{(*WORDS, *LONG)!r})
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_importing_the_package_imports_nothing_else() -> None:
    """`import rlexp` loads no further module until a function is used."""
    probe = "import sys, rlexp; print(sorted(m for m in sys.modules if m.startswith('rlexp')))"
    process = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True
    )
    assert process.stdout.strip() == "['rlexp']"


def test_an_unknown_name_is_an_attribute_error() -> None:
    """The package lists the functions of its API and has no others."""
    assert {"run", "sweep", "best", "compare", "report", "ls", "show", "evaluate", "load"} <= {
        *dir(rlexp)
    }
    with pytest.raises(AttributeError, match="no attribute 'train'"):
        _ = rlexp.train


def test_reading_functions_return_what_the_commands_show(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`ls`, `show`, `compare`, `plot` and `report` return results and print nothing."""
    duel = stored(Layout(tmp_path / "runs"), "duel", *map(configuration, ("ppo", "a2c")), test=3)
    for label, score in (("ppo", 100.0), ("a2c", 50.0)):
        for seed in range(3):
            duel.complete(seed, score + seed, label=label)
    (experiment,) = rlexp.ls(folder=tmp_path).rows
    assert isinstance(experiment, ExperimentRow)
    assert ("duel", 6) == (experiment.experiment, experiment.done)
    assert 6 == len(rlexp.ls("duel", folder=tmp_path).rows)
    details = rlexp.show("duel", folder=tmp_path)
    assert isinstance(details, ExperimentDetails)
    (phase,) = details.phases
    assert {"ppo", "a2c"} == {cell.label for cell in phase.cells}
    assert ("ppo", "a2c") == rlexp.compare("duel", folder=tmp_path).labels
    assert ("ppo", "a2c") == rlexp.plot("duel", folder=tmp_path).labels
    (page,) = rlexp.report("duel", folder=tmp_path).files
    assert Path(page).exists()
    assert ("", "") == capsys.readouterr()


def test_a_mistake_is_an_error_of_rlexp(tmp_path: Path) -> None:
    """A mistake raises an error of rlexp, which has the allowed values."""
    with pytest.raises(ConfigError) as mistake:
        rlexp.run("algorithm=poo", folder=tmp_path)
    assert "ppo" in mistake.value.allowed
    with pytest.raises(RlexpError, match="there is no experiment"):
        rlexp.ls("nothing", folder=tmp_path)


def test_runs_are_trained_within_an_event_loop_and_another_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Calls work in an event loop and in a thread, and leave signal handlers unchanged."""
    quick_parts(monkeypatch)
    handler = signal.getsignal(signal.SIGINT)

    async def cell() -> RunOutcome | RunPlan:
        return rlexp.run(*WORDS, *SMALL, folder=tmp_path)

    outcome = asyncio.run(cell())
    assert isinstance(outcome, RunOutcome)
    assert (2, True, None) == (outcome.ran, outcome.complete, outcome.interrupted)
    outcomes: list[RunOutcome | RunPlan] = []
    thread = threading.Thread(
        target=lambda: outcomes.append(rlexp.run(*WORDS, *SMALL, folder=tmp_path))
    )
    thread.start()
    thread.join()
    (repeated,) = outcomes
    assert isinstance(repeated, RunOutcome)
    assert repeated.ran == 0
    assert repeated.summary == outcome.summary
    assert handler is signal.getsignal(signal.SIGINT)
    assert ("", "") == capfd.readouterr()


def test_a_dry_run_returns_the_plan(tmp_path: Path) -> None:
    """A dry run returns the plan, starts no run and writes no file."""
    plan = rlexp.run(*WORDS, *SMALL, dry_run=True, folder=tmp_path)
    assert isinstance(plan, RunPlan)
    assert (2, 64) == (plan.runs, plan.steps // plan.runs)
    assert not (tmp_path / "runs").exists()


def test_an_interrupted_call_leaves_no_process(tmp_path: Path) -> None:
    """KeyboardInterrupt is raised after every process of the runs has ended."""
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED],
        cwd=tmp_path,
        env=os.environ | {"RLEXP_HOME": str(tmp_path / "cache")},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        caller = psutil.Process(process.pid)
        for _ in range(1200):
            if list((tmp_path / "runs").glob("tiny/*/attempts/1/events.jsonl")):
                break
            assert process.poll() is None
            threading.Event().wait(0.05)
        children = caller.children(recursive=True)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert "interrupted" in output
    assert children
    assert [] == psutil.wait_procs(children, timeout=5)[1]


def test_single_strings_and_wrong_numbers_are_handled(tmp_path: Path) -> None:
    """A single string stands for a list with one entry; wrong values are refused."""
    experiment = stored(Layout(tmp_path / "runs"), "alone", test=1)
    experiment.complete(0, 1.0)
    assert 1 == len(rlexp.ls("alone", where="score>0", folder=tmp_path).rows)
    with pytest.raises(ConfigError, match="add --from-sweep"):
        rlexp.run(trial=3, folder=tmp_path)
    with pytest.raises(ConfigError, match="name an experiment"):
        rlexp.compare(folder=tmp_path)
    with pytest.raises(ConfigError, match="--episodes=0 is too small"):
        rlexp.evaluate(experiment.run(0).folder.name, episodes=0, folder=tmp_path)
    with pytest.raises(ConfigError, match="is not a string"):
        rlexp.run(7, folder=tmp_path)  # type: ignore[arg-type]
