"""`rlexp mv` gives an experiment another name, and nothing else changes."""

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import give, give_json, typed
from quick_parts import quick_parts
from stored_runs import PROVENANCE, STARTED, Stored, stored, study
from stored_sweeps import WORDS, stored_sweep

import rlexp
from rlexp.app.commands.order import move as moving
from rlexp.app.commands.order.move import move
from rlexp.app.tracking.run_labels import RunLabels
from rlexp.app.tracking.tracked_records import tracked_experiment
from rlexp.errors import RecordError
from rlexp.store.files import publish_json, read_json
from rlexp.store.former_names import names_of
from rlexp.store.layout import ExperimentPaths, Layout
from rlexp.store.locks import lease
from rlexp.store.locks.lease import hold, is_held
from rlexp.store.run_queue import RunOrder, write_order
from rlexp.store.runs import read_experiment
from rlexp.store.tracker_positions import TrackerPositions, experiment_identity

quick = pytest.fixture(autouse=True)(quick_parts)


@pytest.fixture
def alpha(tmp_path: Path) -> Stored:
    """An experiment with two completed runs and one that has not begun."""
    alpha = stored(Layout(tmp_path / "runs"))
    alpha.complete(0, 100.0)
    alpha.complete(1, 50.0)
    return alpha


def at(folder: Path, name: str) -> ExperimentPaths:
    """The experiment of a name."""
    return Layout(folder / "runs").experiment(name)


def existing(folder: Path) -> list[str]:
    """The names under `runs/`."""
    return sorted(path.name for path in (folder / "runs").iterdir())


def scores(folder: Path, name: str) -> list[tuple[str, float | None]]:
    """The names and scores of the runs of an experiment."""
    return [(r["run"], r["score"]) for r in give_json(folder, "listing", "ls", name)["rows"]]


def test_an_experiment_gets_another_name(alpha: Stored, tmp_path: Path) -> None:
    """Under the new name are the same runs, scores and tags, and the records are intact."""
    give(tmp_path, "tag", "alpha", "paper")
    before = scores(tmp_path, "alpha")
    output = give(tmp_path, "mv", "alpha", "beta")
    assert f"alpha is now beta: {tmp_path / 'runs' / 'beta'}" in output
    assert "commands that add to it need experiment=beta from now on" in output
    assert ["beta"] == existing(tmp_path)
    assert before == scores(tmp_path, "beta")
    assert "tags of beta: paper" in give(tmp_path, "tag", "beta")
    (verified,) = give_json(tmp_path, "verification", "verify")["experiments"]
    assert {"unsealed"} >= {f["kind"] for f in verified["findings"]}
    assert "beta" == read_json(at(tmp_path, "beta").definition)["name"]
    assert ["alpha"] == give_json(tmp_path, "experiment-details", "show", "beta")["former_names"]
    assert "formerly alpha" in give(tmp_path, "show", "beta")


def test_an_imported_experiment_is_named_by_the_option_of_import(tmp_path: Path) -> None:
    """The next import needs `--experiment` with the new name, and that command is accepted."""
    (tmp_path / "scores.csv").write_text(
        "label,task,seed,step,return\na,t,0,100,1.0\na,t,1,100,2.0\n"
    )
    give(tmp_path, "import", "scores.csv", "--experiment", "alpha", "--steps-unit", "environment")
    printed = give(tmp_path, "mv", "alpha", "beta")
    assert "commands that add to it need --experiment beta from now on" in printed


def test_no_lock_is_left(alpha: Stored, tmp_path: Path) -> None:
    """After the command, another command may drive the experiment at once."""
    give(tmp_path, "mv", "alpha", "beta")
    assert not list(at(tmp_path, "beta").folder.glob("*.holder"))
    assert not is_held(at(tmp_path, "beta").lock)


def test_no_lease_is_left_in_a_shared_folder(
    alpha: Stored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder that machines share, the lease that moved along is removed."""
    monkeypatch.setattr(lease, "is_shared", lambda _: True)
    give(tmp_path, "mv", "alpha", "beta")
    assert not is_held(at(tmp_path, "beta").lock)
    with hold(at(tmp_path, "beta").lock, "it", now=STARTED):
        pass


def test_paths_that_a_shell_completes_are_accepted(alpha: Stored, tmp_path: Path) -> None:
    """Both names may be written as paths in `runs/`."""
    give(tmp_path, "mv", "runs/alpha/", "runs/beta")
    assert ["beta"] == existing(tmp_path)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("alpha", "gamma"), "gamma exists already; choose another name"),
        (("alpha", "alpha"), "alpha exists already"),
        (("alpha", "other"), "other exists already"),
        (("alpha", ".."), "cannot be a folder name"),
        (("alpha", "a/b"), "cannot be a folder name"),
        (("alpha", ".hidden"), "cannot be a folder name"),
        (("alpha", ""), "cannot be a folder name"),
        (("alpha", "x" * 121), "cannot be a folder name"),
        (("alpa", "beta"), "did you mean 'alpha'"),
        (("ppo-test-0", "beta"), "is a run, whose name follows from what defines it"),
    ],
)
def test_a_mistake_changes_nothing(
    alpha: Stored, tmp_path: Path, words: tuple[str, str], message: str
) -> None:
    """A wrong name is one line, and every experiment keeps its name."""
    stored(Layout(tmp_path / "runs"), "gamma")
    (tmp_path / "runs" / "other").symlink_to("nowhere")
    before = existing(tmp_path)
    printed = typed(tmp_path, "mv", *words)
    assert (2, "", 1) == (printed.code, printed.out, printed.err.count("\n"))
    assert message in printed.err
    assert before == existing(tmp_path)
    assert not alpha.paths.names.exists()


def hold_experiment(alpha: Stored) -> Any:
    """Drive the experiment."""
    return hold(alpha.paths.lock, "it", now=STARTED)


def hold_run(alpha: Stored) -> Any:
    """Execute one of its runs."""
    return hold(alpha.run(1).claim, "it", now=STARTED)


def push(alpha: Stored) -> Any:
    """Push its records to a tracker."""
    return TrackerPositions(alpha.paths, "mlflow", "here").holding(STARTED)


@pytest.mark.parametrize("use", [hold_experiment, hold_run, push])
def test_an_experiment_in_use_keeps_its_name(
    alpha: Stored, tmp_path: Path, use: Callable[[Stored], Any]
) -> None:
    """While a process uses the experiment, the command says so and changes nothing."""
    with use(alpha):
        printed = typed(tmp_path, "mv", "alpha", "beta")
    assert (2, 1) == (printed.code, printed.err.count("\n"))
    assert "by another call in this process" in printed.err
    assert ["alpha"] == existing(tmp_path)
    give(tmp_path, "mv", "alpha", "beta")


def test_queued_runs_keep_the_name(alpha: Stored, tmp_path: Path) -> None:
    """Runs that workers look for under the old name must be withdrawn first."""
    order = RunOrder(after=0, settings={"allowed": []}, command=("rlexp", "run"))
    write_order(alpha.paths, alpha.spec(2).name, order)
    printed = typed(tmp_path, "mv", "alpha", "beta")
    assert 2 == printed.code
    assert "1 run of alpha wait in the queue" in printed.err
    assert printed.err.rstrip().endswith("rlexp cancel alpha")
    give(tmp_path, "cancel", "alpha")
    give(tmp_path, "mv", "alpha", "beta")


def test_trackers_continue_a_renamed_experiment(alpha: Stored, tmp_path: Path) -> None:
    """A service keeps id and name of the experiment, so that nothing is pushed a second time."""
    identity = experiment_identity(alpha.paths)
    with TrackerPositions(alpha.paths, "mlflow", "here").holding(STARTED):
        TrackerPositions(alpha.paths, "mlflow", "here").move("a", step=7)
    for before, after in (("alpha", "beta"), ("beta", "gamma")):
        moved = move(before, after, study(tmp_path))
        assert "alpha" == moved.name_in_services
    paths = at(tmp_path, "gamma")
    assert identity == experiment_identity(paths)
    tracked = tracked_experiment(paths, RunLabels(paths))
    assert (identity.id, "alpha") == (tracked.id, tracked.name)
    assert 7 == TrackerPositions(paths, "mlflow", "here").of("a").step


def test_a_copy_is_another_experiment_to_services(alpha: Stored, tmp_path: Path) -> None:
    """A copy of a renamed experiment gets an id of its own, also under the old name."""
    identity = experiment_identity(alpha.paths)
    move("alpha", "beta", study(tmp_path))
    for name in ("alpha", "copy"):
        shutil.copytree(tmp_path / "runs" / "beta", tmp_path / "runs" / name)
        copied = experiment_identity(at(tmp_path, name))
        assert (name, True) == (copied.name, copied.id != identity.id)
        assert copied == experiment_identity(at(tmp_path, name))


STEPS = ("add_name", "sync", "keep_identity", "publish_document")


@pytest.mark.parametrize("step", [*STEPS, "rename"])
@pytest.mark.parametrize("late", [False, True])
def test_a_kill_leaves_one_of_the_names(
    alpha: Stored, tmp_path: Path, step: str, late: bool
) -> None:
    """A command that is killed before or after any step leaves a whole experiment of one name."""
    identity = experiment_identity(alpha.paths)
    before = scores(tmp_path, "alpha")
    child = os.fork()
    if child == 0:
        _move_until_killed(tmp_path, step, late=late)
    _, status = os.waitpid(child, 0)
    assert signal.SIGKILL == os.WTERMSIG(status)
    (name,) = existing(tmp_path)
    assert name in {"alpha", "beta"}
    assert before == scores(tmp_path, name)
    assert identity == experiment_identity(at(tmp_path, name))
    give(tmp_path, "mv", name, "gamma")
    assert before == scores(tmp_path, "gamma")
    assert identity == experiment_identity(at(tmp_path, "gamma"))
    assert "gamma" == read_json(at(tmp_path, "gamma").definition)["name"]
    (verified,) = give_json(tmp_path, "verification", "verify")["experiments"]
    assert {"unsealed"} >= {f["kind"] for f in verified["findings"]}
    assert names_of(at(tmp_path, "gamma"))[-1] == "gamma"


def _move_until_killed(folder: Path, step: str, *, late: bool) -> None:
    """Rename alpha to beta in this process, which is killed at a step."""
    owner: Any = Path if step == "rename" else moving
    original = getattr(owner, step)

    def killed(*arguments: Any, **options: Any) -> Any:
        if late:
            original(*arguments, **options)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, step, killed)
    try:
        move("alpha", "beta", study(folder))
    finally:
        os._exit(1)


def test_a_sweep_is_resumed_under_its_new_name(tmp_path: Path) -> None:
    """`rlexp resume` repeats the recorded command of a sweep with the new name."""
    sweep = stored_sweep(tmp_path)
    sweep.go_on(runs=3)
    command = ["rlexp", "sweep", *WORDS]
    for path in sweep.paths.folder.glob("*/attempts/*/provenance.json"):
        publish_json(path, {**PROVENANCE, "command": command})
    trials = sweep.paths.trials.read_bytes()
    move("made_up", "renamed", study(tmp_path))
    plan = give(tmp_path, "resume", "renamed", "--dry-run")
    assert "renamed" in plan
    assert "made_up" not in plan
    assert trials == at(tmp_path, "renamed").trials.read_bytes()


def test_experiments_that_refer_to_it_are_named(alpha: Stored, tmp_path: Path) -> None:
    """The output names the experiments whose recorded commands have the old name."""
    other = stored(Layout(tmp_path / "runs"), "retrained")
    command = ["rlexp", "run", "--from-sweep", "alpha"]
    other.complete(0, 1.0, provenance={**PROVENANCE, "command": command})
    assert "alpha is named by retrained: in commands" in give(tmp_path, "mv", "alpha", "beta")


def test_experiments_that_refer_to_an_earlier_name_are_named(
    alpha: Stored, tmp_path: Path
) -> None:
    """After two renamings, the experiments that were made under the first name are named still."""
    other = stored(Layout(tmp_path / "runs"), "retrained")
    command = ["rlexp", "run", "--from-sweep=alpha"]
    other.complete(0, 1.0, provenance={**PROVENANCE, "command": command})
    give(tmp_path, "mv", "alpha", "beta")
    assert ["retrained"] == give_json(tmp_path, "move", "mv", "beta", "gamma")["referring"]


@pytest.mark.parametrize(
    "command", ["show alpha", "ls alpha", "run --from-sweep alpha", "resume alpha", "best alpha"]
)
@pytest.mark.usefixtures("alpha")
def test_a_former_name_is_answered_with_the_present_one(tmp_path: Path, command: str) -> None:
    """A command with the old name is refused with the new one, until the old name is used again."""
    give(tmp_path, "mv", "alpha", "beta")
    refused = typed(tmp_path, *command.split())
    assert "rlexp: experiment alpha is now beta: give that name\n" == refused.err
    again = stored(Layout(tmp_path / "runs"))
    again.complete(0, 1.0)
    assert "is now" not in typed(tmp_path, *command.split(), "--json").err


def test_the_same_command_under_the_new_name_does_nothing_more(
    alpha: Stored, tmp_path: Path
) -> None:
    """The definition of a renamed experiment is that of the same configurations."""
    fingerprint = alpha.experiment.fingerprint
    give(tmp_path, "mv", "alpha", "beta")
    renamed = read_experiment(at(tmp_path, "beta"))
    assert ("beta", fingerprint) == (renamed.name, renamed.fingerprint)


def test_an_edited_definition_stays_edited(alpha: Stored, tmp_path: Path) -> None:
    """An edit by hand before the renaming is still reported by `rlexp verify`."""
    path = alpha.paths.definition
    path.write_text(path.read_text().replace('"failures": "missing"', '"failures": "worst"'))
    give(tmp_path, "mv", "alpha", "beta")
    printed = typed(tmp_path, "verify")
    assert 1 == printed.code
    assert "experiment.json" in printed.out


def test_a_damaged_definition_does_not_prevent_it(alpha: Stored, tmp_path: Path) -> None:
    """An experiment whose definition cannot be read gets another name, and the file stays."""
    alpha.paths.definition.write_text("{")
    give(tmp_path, "mv", "alpha", "beta")
    assert "{" == at(tmp_path, "beta").definition.read_text()


def test_a_full_disk_is_one_line(
    alpha: Stored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing can be written, the experiment keeps its name."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(moving, "add_name", full)
    with pytest.raises(RecordError, match=r"cannot rename .*No space left"):
        move("alpha", "beta", study(tmp_path))
    assert ["alpha"] == existing(tmp_path)
    monkeypatch.undo()
    monkeypatch.setattr(moving, "keep_identity", full)
    with pytest.raises(RecordError, match="is now beta, but a file in it still has the old name"):
        move("alpha", "beta", study(tmp_path))
    assert ["beta"] == existing(tmp_path)


def test_python_functions_do_what_the_commands_do(alpha: Stored, tmp_path: Path) -> None:
    """The functions `tag`, `note`, `mv` and `ls` return the results of the commands."""
    assert ("paper",) == rlexp.tag("alpha", "paper", workspace=tmp_path).tags
    assert "text" == rlexp.note("alpha", "text", workspace=tmp_path).notes[0].text
    assert "beta" == rlexp.mv("alpha", "beta", workspace=tmp_path).experiment
    (row,) = rlexp.ls(where="tag=paper", columns=["algorithm"], workspace=tmp_path).rows
    assert {"algorithm": ["ppo"]} == row.columns
