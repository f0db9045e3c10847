"""`rlexp status` prints the progress of experiments as text and as JSON."""

import json
from pathlib import Path

import pytest
from command_line import rlexp
from quick_parts import quick_parts
from stored_runs import STARTED, Stored, completed, ended, evaluated, stored, study
from stored_sweeps import stored_sweep

from rlexp.app.commands.look import status as status_command
from rlexp.app.commands.look.status import RunningRun, status
from rlexp.engine.run_in_flight import PROGRESS
from rlexp.records.events import Ending
from rlexp.store.files import publish_json
from rlexp.store.layout import Layout
from rlexp.store.locks.lease import hold
from rlexp.store.run_queue import RunOrder, write_order

quick = pytest.fixture(autouse=True)(quick_parts)


@pytest.fixture
def alpha(tmp_path: Path) -> Stored:
    """One completed run, one interrupted run, and one that has not ended."""
    alpha = stored(Layout(tmp_path / "runs"))
    alpha.attempt(0, completed(100.0))
    alpha.attempt(1, [evaluated(50, 1.0), ended(Ending.INTERRUPTED, 60)])
    alpha.attempt(2, [evaluated(50, 1.0, 2.0)])
    alpha.run(2).attempt(1).progress.write_bytes(PROGRESS.pack(70, 9))
    return alpha


def test_runs_are_counted_by_state(alpha: Stored, tmp_path: Path) -> None:
    """An experiment without an active command shows the number of runs in each state."""
    (experiment,) = status("alpha", study(tmp_path)).experiments
    assert not experiment.driven
    assert {"completed": 1, "interrupted": 1, "lost": 1} == experiment.runs
    assert rlexp(tmp_path, "status").out == (
        "alpha (unfinished): 3 runs: 1 completed, 1 interrupted, 1 lost\n"
        "To continue: rlexp resume alpha\n"
    )


def test_a_run_under_way_is_shown_at_the_step_of_its_counter(
    alpha: Stored, tmp_path: Path
) -> None:
    """A running run is listed with its step, its budget and the mean of its last evaluation."""
    name = alpha.run(2).folder.name
    with hold(alpha.run(2).lease, "the run", now=STARTED):
        (experiment,) = status(None, study(tmp_path)).experiments
        printed = rlexp(tmp_path, "status", "alpha").out
    shown = RunningRun(
        run=name, step=70, steps=100, unit="environment_steps", quantity="return", last_mean=1.5
    )
    assert (shown,) == experiment.running
    assert f"  {name} at step 70 of 100, return 1.5\n" in printed


def test_runs_that_wait_for_workers_are_counted(alpha: Stored, tmp_path: Path) -> None:
    """Queued runs and submitted jobs are counted."""
    name = alpha.run(2).folder.name
    write_order(alpha.paths, name, RunOrder(after=1, settings={}, command=("rlexp",)))
    alpha.paths.jobs.mkdir(exist_ok=True)
    publish_json(alpha.paths.jobs / "1.json", {"executor": "slurm", "runs": [name]})
    (experiment,) = rlexp(tmp_path, "status", "--json").document("status")["experiments"]
    assert {"waiting": [name], "taken": [], "jobs": {"slurm": 1}} == experiment["queued"]
    printed = rlexp(tmp_path, "status").out
    assert "  1 queued run not yet taken by a worker\n" in printed
    assert "  1 job submitted to slurm for queued runs\n" in printed


def test_damage_is_listed(alpha: Stored, tmp_path: Path) -> None:
    """A run with a damaged specification is named with the reason and not counted."""
    alpha.run(0).spec.write_text("{")
    printed = rlexp(tmp_path, "status", "alpha").out
    assert "alpha (unfinished): 2 runs: 1 interrupted, 1 lost\n" in printed
    assert f"  damaged: {alpha.run(0).folder.name}: spec.json cannot be read" in printed


def test_an_unreadable_sweep_is_reported(tmp_path: Path) -> None:
    """`status` and `show` print the problem of a sweep that cannot be read."""
    sweep = stored_sweep(tmp_path)
    sweep.go_on(runs=3)
    definition = sweep.paths.definition.read_text()
    sweep.paths.definition.write_text(definition.replace("rlexp.tuners.", "nowhere."))
    (experiment,) = status("made_up", study(tmp_path)).experiments
    assert experiment.sweep is None
    assert "nowhere" in str(experiment.sweep_problem)
    for command in ("status", "show"):
        assert f"  {experiment.sweep_problem}\n" in rlexp(tmp_path, command, "made_up").out


def test_every_experiment_has_a_row_and_the_unfinished_ones_a_command(
    alpha: Stored, tmp_path: Path
) -> None:
    """The answer counts the states, unfinished experiments come first, and their commands last."""
    beta = stored(Layout(tmp_path / "runs"), "a_beta", test=1)
    beta.attempt(0, completed(1.0))
    assert [
        "2 experiments: 1 unfinished, 1 finished",
        "  alpha   unfinished  3 runs: 1 completed, 1 interrupted, 1 lost",
        "  a_beta  finished    1 run: 1 completed",
        "To continue (alpha): rlexp resume alpha",
    ] == rlexp(tmp_path, "status").out.splitlines()


def test_a_finished_experiment_names_the_command_of_its_scores(tmp_path: Path) -> None:
    """The status of a finished experiment ends with the command that shows its scores."""
    stored(Layout(tmp_path / "runs"), test=1).attempt(0, completed(1.0))
    last = rlexp(tmp_path, "status", "alpha").out.splitlines()[-1]
    assert "To see its scores: rlexp show alpha" == last


def test_without_experiments_status_says_what_ls_says(tmp_path: Path) -> None:
    """An empty folder is no error: both commands name the command that starts runs."""
    expected = f"{tmp_path / 'runs'} holds no runs yet; to start some, use 'rlexp run'\n"
    assert () == status(None, study(tmp_path)).experiments
    for command in (["status"], ["status", "--watch"], ["ls"]):
        assert expected == rlexp(tmp_path, *command).out


def test_watching_as_json_writes_one_document_per_line(
    alpha: Stored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each update is one document on one line, and the last comes when no command runs."""
    lease = hold(alpha.paths.lock, "experiment alpha", now=STARTED)
    lease.__enter__()
    monkeypatch.setattr(status_command, "PAUSE", 0.0)
    updates = status_command.watch("alpha", study(tmp_path))
    assert next(updates).driven
    lease.__exit__(None, None, None)
    assert [False] == [update.driven for update in updates]
    (line,) = rlexp(tmp_path, "status", "--watch", "--json").out.splitlines()
    document = json.loads(line)
    assert {"name": "status", "version": 1} == document["schema"]
    assert ["alpha"] == [experiment["experiment"] for experiment in document["experiments"]]
