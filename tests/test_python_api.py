"""The Python API returns the results of the commands, prints nothing and works in notebooks."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

import psutil
import pytest
from quick_parts import quick_parts
from stored_runs import configuration, stored

import rlexp
from rlexp.app.commands.look.listing_rows import ExperimentRow
from rlexp.app.commands.look.show import ExperimentDetails
from rlexp.app.commands.train.run import RunOutcome
from rlexp.app.plans import RunPlan, SweepOutline
from rlexp.config.compose import hydra_session
from rlexp.config.config_files import groups
from rlexp.config.overrides import EXPERIMENT_KEYS, SWEEP_GROUPS
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
    (experiment,) = rlexp.ls(workspace=tmp_path).rows
    assert isinstance(experiment, ExperimentRow)
    assert ("duel", 6) == (experiment.experiment, experiment.done)
    assert 6 == len(rlexp.ls("duel", workspace=tmp_path).rows)
    details = rlexp.show("duel", workspace=tmp_path)
    assert isinstance(details, ExperimentDetails)
    (phase,) = details.phases
    assert {"ppo", "a2c"} == {cell.label for cell in phase.cells}
    assert ("ppo", "a2c") == rlexp.compare("duel", workspace=tmp_path).labels
    assert ("ppo", "a2c") == rlexp.plot("duel", workspace=tmp_path).labels
    (page,) = rlexp.report("duel", workspace=tmp_path).files
    assert Path(page).exists()
    assert ("", "") == capsys.readouterr()


def test_a_mistake_is_an_error_of_rlexp(tmp_path: Path) -> None:
    """A mistake raises an error of rlexp, which has the allowed values."""
    with pytest.raises(ConfigError) as mistake:
        rlexp.run("algorithm=poo", workspace=tmp_path)
    assert "ppo" in mistake.value.allowed
    with pytest.raises(RlexpError, match="there is no experiment"):
        rlexp.ls("nothing", workspace=tmp_path)


def test_runs_are_trained_within_an_event_loop_and_another_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Calls work in an event loop and in a thread, and leave signal handlers unchanged."""
    quick_parts(monkeypatch)
    handler = signal.getsignal(signal.SIGINT)

    async def cell() -> RunOutcome | RunPlan:
        return rlexp.run(*WORDS, *SMALL, workspace=tmp_path)

    outcome = asyncio.run(cell())
    assert isinstance(outcome, RunOutcome)
    assert (2, True, None) == (outcome.ran, outcome.complete, outcome.interrupted)
    outcomes: list[RunOutcome | RunPlan] = []
    thread = threading.Thread(
        target=lambda: outcomes.append(rlexp.run(*WORDS, *SMALL, workspace=tmp_path))
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
    plan = rlexp.run(*WORDS, *SMALL, dry_run=True, workspace=tmp_path)
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
    assert 1 == len(rlexp.ls("alone", where="score>0", workspace=tmp_path).rows)
    with pytest.raises(ConfigError, match="add --from-sweep"):
        rlexp.run(trial=3, workspace=tmp_path)
    with pytest.raises(ConfigError, match="name an experiment"):
        rlexp.compare(workspace=tmp_path)
    with pytest.raises(ConfigError, match="--episodes=0 is too small"):
        rlexp.evaluate(experiment.run(0).folder.name, episodes=0, workspace=tmp_path)
    with pytest.raises(ConfigError, match="a setting of the type int is not allowed"):
        rlexp.run(7, workspace=tmp_path)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="int is not allowed here: write a string"):
        rlexp.ls(where=[7], workspace=tmp_path)  # type: ignore[list-item]


def untimed(plan: object) -> object:
    """A plan without its estimated time, which depends on what the machine does meanwhile."""
    assert isinstance(plan, RunPlan | SweepOutline)
    return replace(plan, seconds=0.0, seconds_low=0.0, seconds_high=0.0)


def test_keywords_mappings_and_words_give_the_same_plan(tmp_path: Path) -> None:
    """Keywords, mappings and words of the command line define the same experiment."""
    short: dict[str, Any] = {"algorithm": ("ppo", "a2c"), "budget": {"steps": 4096}}
    plans = [
        rlexp.run("algorithm=ppo,a2c", "budget.steps=4096", dry_run=True, workspace=tmp_path),
        rlexp.run(
            {"budget.steps": 4096}, algorithm=("ppo", "a2c"), dry_run=True, workspace=tmp_path
        ),
        rlexp.run(**short, dry_run=True, workspace=str(tmp_path)),
    ]
    assert isinstance(plans[0], RunPlan)
    assert 10 == plans[0].runs
    first, *others = map(untimed, plans)
    assert all(first == other for other in others)


def test_a_sweep_is_defined_by_keywords_and_mappings(tmp_path: Path) -> None:
    """A sweep takes its definition, ranges as text and choices as tuples, in every form."""
    ranges = {"algorithm.gamma": "interval(0.9, 0.99)", "algorithm.n_epochs": (2, 3)}
    words = ("algorithm.gamma=interval(0.9, 0.99)", "algorithm.n_epochs=2,3", "sweep.trials=4")
    plans = [
        rlexp.sweep(None, *words, dry_run=True, workspace=tmp_path),
        rlexp.sweep(*words, dry_run=True, workspace=tmp_path),
        rlexp.sweep(ranges, sweep={"trials": 4}, dry_run=True, workspace=tmp_path),
        rlexp.sweep(sweep={"space": ranges, "trials": 4}, dry_run=True, workspace=tmp_path),
    ]
    assert isinstance(plans[0], SweepOutline)
    assert ("algorithm.gamma", "algorithm.n_epochs") == plans[0].parameters
    first, *others = map(untimed, plans)
    assert all(first == other for other in others)
    named = rlexp.sweep("quick", {"sweep.trials": 4}, dry_run=True, workspace=tmp_path)
    assert isinstance(named, SweepOutline)
    assert (4, "quick") == (named.trials, named.experiment)


def test_settings_of_reports_are_mappings_too(tmp_path: Path) -> None:
    """A mapping of settings gives the same comparison as the words of the command line."""
    duel = stored(Layout(tmp_path / "runs"), "duel", *map(configuration, ("ppo", "a2c")), test=3)
    for label, score in (("ppo", 100.0), ("a2c", 50.0)):
        for seed in range(3):
            duel.complete(seed, score + seed, label=label)
    forms: list[Any] = [
        "margin=10",
        {"margin": 10},
        [{"margin": 10}],
        ["margin=10"],
    ]
    compared = [rlexp.compare("duel", settings=form, workspace=tmp_path) for form in forms]
    assert all(compared[0] == other for other in compared)
    assert compared[0] != rlexp.compare("duel", workspace=tmp_path)


@pytest.mark.parametrize(
    ("keywords", "reason"),
    [
        ({"algoritm": "ppo"}, "unknown key 'algoritm'; did you mean 'algorithm=ppo'?"),
        ({"steps": 1000}, "unknown key 'steps': type budget.steps=1000"),
        ({"dryrun": True}, "run() has no keyword 'dryrun'; did you mean 'dry_run'?"),
        ({"folder": "x"}, "run() has no keyword 'folder'; did you mean 'workspace'?"),
        ({"seeds": {"tests": 3}}, "unknown key 'seeds.tests'; did you mean 'seeds.test=3'?"),
        ({"budget": {"steps": max}}, "budget.steps: a value of the type builtin_function"),
        ({"algorithm": {"gamma": (0.9, (1,))}}, "algorithm.gamma: a tuple cannot stand inside"),
    ],
)
def test_a_wrong_keyword_is_one_line(
    tmp_path: Path, keywords: dict[str, Any], reason: str
) -> None:
    """A misspelt keyword or an impossible value is named on one line, and nothing is written."""
    with pytest.raises(ConfigError) as mistake:
        rlexp.run(**keywords, workspace=tmp_path)
    assert str(mistake.value).startswith(reason)
    assert "\n" not in str(mistake.value)
    assert not (tmp_path / "runs").exists()


def test_no_key_of_a_configuration_is_a_keyword_of_a_function(tmp_path: Path) -> None:
    """Every first key of a configuration can be a keyword of `run`, `sweep` and `extend`."""
    with hydra_session(tmp_path, "sweep_entry") as load:
        keys = {*load([]), *groups(tmp_path), *EXPERIMENT_KEYS, *SWEEP_GROUPS}
    assert {"algorithm", "budget", "benchmark", "sweep", "tuner"} <= keys
    for function in (rlexp.run, rlexp.sweep, rlexp.extend):
        assert set() == keys & {*signature(function).parameters}


def test_an_experiment_is_loaded_by_its_name_or_its_folder(tmp_path: Path) -> None:
    """`load` takes a name in a workspace, and a path, which begins in the workspace."""
    stored(Layout(tmp_path / "runs"), "alone", test=1).complete(0, 1.0)
    for name in ("alone", "runs/alone", str(tmp_path / "runs" / "alone"), Path("runs/alone")):
        assert [1.0] == rlexp.load(name, workspace=tmp_path).scores().tolist()
    with pytest.raises(RlexpError, match="did you mean 'alone'"):
        rlexp.load("alon", workspace=tmp_path)
