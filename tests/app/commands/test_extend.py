"""`rlexp extend` plans extensions, and refuses on one line what cannot be extended."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from command_line import give, give_json, rlexp
from finished_runs import finish
from quick_parts import quick_parts
from stored_runs import stored

from rlexp.app.commands.train.extend import ExtendOptions, _Extending, _read_request, _scan, extend
from rlexp.app.commands.train.recorded_requests import readable_experiment
from rlexp.app.execution import extension
from rlexp.app.execution.extension import parent_experiment
from rlexp.app.observer import SilentObserver
from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError, RecordError, RlexpError
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.records.events import Ending
from rlexp.store.checkpoints.inheritance import FIRST, find_copy, inherit
from rlexp.store.files import read_json
from rlexp.store.former_names import find_renamed
from rlexp.store.layout import ExperimentPaths, Layout, RunPaths
from rlexp.store.runs import read_definition, read_run, read_spec, write_experiment

SMALL = ("algorithm.n_steps=16", "algorithm.batch_size=16", "agent.network=[4]")
OFF_POLICY = ("algorithm.learning_starts=8", "algorithm.buffer_size=100", "agent.network=[4]")

quick = pytest.fixture(autouse=True)(quick_parts)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one completed run of 64 steps, which must not be changed."""
    folder = tmp_path_factory.mktemp("trained")
    finish(folder, *SMALL)
    return folder


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> Path:
    """A folder with one completed run of 64 steps."""
    return Path(shutil.copytree(trained, tmp_path / "study"))


@pytest.fixture
def replayable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Environments are not played before an extension."""
    monkeypatch.setattr(extension, "call_in_subprocess", lambda *_: None)


def only_run(folder: Path, experiment: str = "tiny") -> RunPaths:
    """The only run of an experiment."""
    (run,) = Layout(folder / "runs").experiment(experiment).runs()
    return run


def snapshot(folder: Path) -> dict[str, bytes]:
    """The content of every visible file of the runs."""
    files = (p for p in (folder / "runs").rglob("*") if p.is_file() and p.name[0] != ".")
    return {str(p): p.read_bytes() for p in files}


@pytest.mark.usefixtures("replayable")
def test_the_plan_says_where_runs_begin(folder: Path) -> None:
    """A plan names the extension, its parent, its length and the step; nothing is written."""
    before = snapshot(folder)
    plan = give_json(folder, "extend-outcome", "extend", "tiny", "budget.steps=200", "--dry-run")
    assert ("tiny-200", "tiny", 200) == (plan["experiment"], plan["parent"], plan["steps"])
    assert [48] == [*plan["begins"].values()]
    (part,) = plan["parts"]
    assert ([48], 1) == ([*part["beginnings"]["continued"].values()], part["runs"])
    assert before == snapshot(folder)


@pytest.mark.usefixtures("replayable")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "budget.steps is missing"),
        (("budget.steps=64",), "have 64 steps already; give more than 64"),
        (("budget.steps=ten",), "budget.steps=ten is no whole number"),
        (("budget.steps=true",), "budget.steps=True is no whole number"),
        (("budget.steps=-5",), "must be 1 or more"),
        (("budget.steps=100,200",), "give one value"),
        (("budget.steps=1e9",), "evaluations every 32 steps"),
        (("budget.steps=200", "algorithm.gamma=0.5"), "'rlexp extend' does not change"),
        (("budget.steps=200", "experiment=../up"), "cannot be a folder name"),
        (("budget.steps=200", "experiment=tiny"), "exists with another definition"),
        (("budget.steps=200", "--restart-schedules"), "nothing in tiny depends on the length"),
    ],
)
def test_wrong_words_are_refused(folder: Path, words: tuple[str, ...], message: str) -> None:
    """A wrong override is refused on one line, and nothing changes on disk."""
    before = snapshot(folder)
    with pytest.raises(RlexpError, match=message.replace("(", r"\(")) as error:
        rlexp(folder, "extend", "tiny", *words)
    assert before == snapshot(folder)
    assert "\n" not in str(error.value) or "exists with another definition" in str(error.value)


def test_an_unknown_target_is_refused(folder: Path) -> None:
    """A name without an experiment is refused."""
    with pytest.raises(RlexpError, match="no experiment and no run"):
        rlexp(folder, "extend", "nothing", "budget.steps=200")


@pytest.mark.usefixtures("replayable")
def test_a_removed_or_damaged_state_is_refused(folder: Path) -> None:
    """A run whose state is damaged or gone is refused with what to do instead."""
    run = only_run(folder)
    state = run.checkpoints / "48" / "state.npz"
    content = state.read_bytes()
    state.write_bytes(content[:-1] + b"x")
    with pytest.raises(RlexpError, match=r"cannot be extended: .*state.npz is damaged.*fresh run"):
        rlexp(folder, "extend", "tiny", "budget.steps=200")
    state.write_bytes(content)
    removed = give_json(folder, "garbage-collection", "gc", "--states", "--yes")
    assert removed["bytes"] == len(content)
    with pytest.raises(RlexpError, match=r"keeps no state to continue from.*fresh run"):
        rlexp(folder, "extend", "tiny", "budget.steps=200")


@pytest.mark.usefixtures("replayable")
def test_other_versions_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state of other versions is refused, with the command that continues it all the same."""
    monkeypatch.setattr(extension, "describe_changes", lambda *_: "numpy 1.0 is now 2.0")
    with pytest.raises(RlexpError, match=r"numpy 1.0 is now 2.0; .*--allow-drift"):
        rlexp(folder, "extend", "tiny", "budget.steps=200")
    assert "tiny-200 extends tiny" in give(
        folder, "extend", "tiny", "budget.steps=200", "--allow-drift", "--dry-run"
    )


def test_an_environment_that_cannot_be_restored_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An environment with hidden state is refused before anything starts."""
    monkeypatch.setattr(extension, "call_in_subprocess", lambda *_: "its rewards differ")
    with pytest.raises(ConfigError, match=r"cannot be restored.*its rewards differ.*fresh run"):
        rlexp(folder, "extend", "tiny", "budget.steps=200")
    assert not (folder / "runs" / "tiny-200").exists()


@pytest.mark.parametrize(
    ("ending", "message"),
    [
        (Ending.INTERRUPTED, "is interrupted.*finish it with 'rlexp resume"),
        (Ending.PRUNED, "is pruned"),
        (Ending.FAILED, "is failed.*--retry"),
    ],
)
def test_runs_that_are_not_completed_are_refused(
    folder: Path, ending: Ending, message: str
) -> None:
    """An interrupted, pruned or failed run is refused, with what to do."""
    journal = only_run(folder).attempt(1).journal
    *lines, last = journal.read_text().splitlines()
    event = {**json.loads(last), "ending": str(ending)}
    event |= {"failure": "nan"} if ending is Ending.FAILED else {}
    journal.write_text("\n".join([*lines, json.dumps(event)]) + "\n")
    with pytest.raises(RlexpError, match=message):
        rlexp(folder, "extend", "tiny", "budget.steps=200")


def test_an_experiment_without_states_is_refused(tmp_path: Path) -> None:
    """Runs of records without any checkpoint are refused."""
    experiment = stored(Layout(tmp_path / "runs"))
    experiment.complete(0, 1.0)
    with pytest.raises(RlexpError):
        rlexp(tmp_path, "extend", experiment.paths.name, "budget.steps=200000")


@pytest.mark.usefixtures("replayable")
@pytest.mark.parametrize(
    ("words", "setting"),
    [
        (
            (*SMALL, "algorithm.learning_rate={shape:linear,initial:0.001}"),
            "algorithm.learning_rate",
        ),
        ((*SMALL, "algorithm.clip_range={shape:linear,initial:0.2}"), "algorithm.clip_range"),
        (("algorithm=dqn", *OFF_POLICY), "algorithm.exploration_fraction"),
    ],
)
def test_schedules_ask_for_a_decision(
    tmp_path: Path, words: tuple[str, ...], setting: str
) -> None:
    """A schedule over the length of training is named, and begins again only where that is asked."""
    finish(tmp_path, *words)
    with pytest.raises(ConfigError, match=f"{setting} of .*--restart-schedules"):
        extend("tiny", ["budget.steps=200"], dry(), workspace(tmp_path), SilentObserver())


@pytest.mark.usefixtures("replayable")
def test_restarted_schedules_are_another_configuration(tmp_path: Path) -> None:
    """An extension with restarted schedules has a label and a fingerprint of its own."""
    words = ("budget.keep_last=true", "algorithm=dqn", *OFF_POLICY)
    finish(tmp_path, *words)
    output = give(
        *(tmp_path, "extend", "tiny", "budget.steps=200", "--restart-schedules", "--dry-run")
    )
    assert "schedules that begin again there: algorithm.exploration_fraction" in output
    restarted = extension.lengthen(
        read_definition(Layout(tmp_path / "runs").experiment("tiny")).default,
        200,
        workspace(tmp_path),
        restart=True,
        fresh="start a fresh run",
    )
    assert "dqn restarted at 64" == restarted.after.label
    assert (64,) == restarted.after.budget.restarts
    assert restarted.after.parts()["budget"]["restarts"] == [64]


def test_what_an_extended_run_takes_over(folder: Path, tmp_path: Path) -> None:
    """The copy and the events up to its step are taken over once, and survive their source."""
    source, target = folder / "runs" / "tiny", RunPaths(tmp_path / "longer" / "run")
    parent = only_run(folder)
    spec = extended_spec(parent)
    for _ in range(2):
        inherit(target, spec, ExperimentPaths(source))
    shutil.rmtree(source)
    record = read_run(target, measurements=True).record
    assert (48, [32]) == (record.step, [e.step for e in record.evaluations])
    assert (0, 1) == (record.spent, record.attempts)
    assert record.inherited is not None
    assert ("tiny", 48) == (record.inherited.experiment, record.inherited.step)
    assert max(m.step for m in record.measurements) <= 48
    assert {"manifest.json", "model.zip", "state.npz"} == {
        p.name for p in (target.parent.checkpoints / "48").iterdir()
    }
    assert read_json(target.attempt(FIRST).settings)


def test_an_interrupted_taking_over_is_completed(folder: Path, tmp_path: Path) -> None:
    """What a killed process left half done is replaced."""
    target = RunPaths(tmp_path / "longer" / "run")
    spec = extended_spec(only_run(folder))
    (target.folder / ".0a1b2c3d.parent" / "checkpoints").mkdir(parents=True)
    (target.folder / "attempts" / ".0a1b2c3d.1").mkdir(parents=True)
    assert [] == target.attempts()
    inherit(target, spec, ExperimentPaths(folder / "runs" / "tiny"))
    assert [1] == [a.number for a in target.attempts()]
    assert ["parent"] == [p.name for p in target.folder.glob("*parent")]
    assert ["1"] == [p.name for p in (target.folder / "attempts").iterdir()]


def extended_spec(parent: RunPaths) -> RunSpec:
    """The run that continues another one."""
    spec = read_spec(parent)
    copy = find_copy(parent, spec.id)
    assert copy is not None
    return spec.again(spec.phase, spec.root, spec.seed, copy.parent)


def workspace(folder: Path) -> Workspace:
    """The workspace in a folder."""
    return Workspace(folder, Layout(folder / "runs"))


def dry(**options: Any) -> ExtendOptions:
    """Options that start nothing."""
    return ExtendOptions(dry_run=True, **options)


def test_an_algorithm_that_names_no_settings_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An algorithm without `length_settings`, or with some and without `restarted`, is refused."""
    configuration = read_definition(Layout(folder / "runs").experiment("tiny")).default

    def refusal(algorithm: object) -> str:
        monkeypatch.setattr(extension, "build", lambda *_: algorithm)
        with pytest.raises(ConfigError) as error:
            extension.lengthen(configuration, 200, workspace(folder), restart=True, fresh="go")
        return str(error.value)

    assert "object has no method 'length_settings'" in refusal(object())
    silent = SimpleNamespace(length_settings=lambda: ("ent_coef",))
    assert "SimpleNamespace has no method 'restarted'" in refusal(silent)


def extension_to_200_steps(folder: Path, *words: str) -> ExperimentPaths:
    """An extension of the run to 200 steps, of which no run has begun."""
    request = _read_request("tiny", ("budget.steps=200", *words), dry(), workspace(folder))
    scan, only = _scan(request)
    extension_of_tiny = _Extending(request, scan, readable_experiment(scan), only).extension()
    paths = Layout(folder / "runs").experiment(extension_of_tiny.experiment.name)
    write_experiment(paths, extension_of_tiny.experiment)
    return paths


@pytest.fixture
def longer(folder: Path) -> ExperimentPaths:
    """An extension named longer."""
    return extension_to_200_steps(folder, "experiment=longer")


@pytest.mark.usefixtures("replayable")
def test_a_renamed_parent_stays_the_parent(folder: Path, longer: ExperimentPaths) -> None:
    """After `rlexp mv` of the parent, the extension keeps its definition and finds its parent."""
    moved = give_json(folder, "move", "mv", "tiny", "renamed")
    assert ["longer"] == moved["referring"]
    before = read_definition(longer).fingerprint
    words = ("budget.steps=200", "experiment=longer", "--dry-run")
    plan = give_json(folder, "extend-outcome", "extend", "renamed", *words)
    assert ("longer", 200) == (plan["experiment"], plan["steps"])
    assert before == read_definition(longer).fingerprint
    ((_, spec),) = read_definition(longer).specs(Phase.TEST)
    inherit(longer.run(spec.name), spec, find_renamed(Layout(folder / "runs"), "tiny"))
    assert 48 == read_run(longer.run(spec.name)).record.step
    shown = give_json(folder, "run-details", "show", f"longer/{spec.name}")
    assert shown["extends"].startswith("renamed/")
    with pytest.raises(RecordError, match="tiny is now renamed: give that name"):
        rlexp(folder, "extend", "tiny", *words)


@pytest.mark.usefixtures("replayable")
def test_an_extension_keeps_its_derived_name_after_its_parent_is_renamed(folder: Path) -> None:
    """The same command with the new name of the parent continues the extension that exists."""
    extension_to_200_steps(folder)
    moved = give_json(folder, "move", "mv", "tiny", "renamed")
    assert ["tiny-200"] == moved["referring"]
    words = ("extend", "renamed", "budget.steps=200", "--dry-run")
    plan = give_json(folder, "extend-outcome", *words)
    assert ("tiny-200", "renamed") == (plan["experiment"], plan["parent"])


@pytest.mark.usefixtures("replayable")
def test_a_parent_is_found_although_another_experiment_has_its_former_name(folder: Path) -> None:
    """The parent of a run is the experiment that holds it, and not a later one of the same name."""
    paths = extension_to_200_steps(folder)
    extends = read_definition(paths).extends
    assert extends is not None
    assert "tiny" == parent_experiment(paths, extends).name
    give_json(folder, "move", "mv", "tiny", "renamed")
    stored(Layout(folder / "runs"), "tiny").complete(0, 1.0)
    assert "renamed" == parent_experiment(paths, extends).name
    shutil.rmtree(folder / "runs" / "renamed")
    assert "tiny" == parent_experiment(paths, extends).name


@pytest.mark.usefixtures("replayable")
def test_an_extension_whose_parent_is_gone_keeps_its_length(
    folder: Path, longer: ExperimentPaths
) -> None:
    """Other steps are refused with the command that extends the extension itself."""
    shutil.rmtree(folder / "runs" / "tiny")
    with pytest.raises(
        ConfigError, match="longer extends tiny to 200 steps, and tiny is gone"
    ) as e:
        rlexp(folder, "extend", "tiny", "budget.steps=300", "experiment=longer")
    assert str(e.value).endswith("extend longer itself: rlexp extend longer budget.steps=300")
    assert longer.definition.exists()


@pytest.mark.usefixtures("replayable")
def test_an_extension_is_not_compared_adaptively(folder: Path, longer: ExperimentPaths) -> None:
    """A sequential comparison adds seeds, which an extension cannot have; no design is frozen."""
    with pytest.raises(ConfigError, match="longer has only runs that extend others"):
        rlexp(folder, "compare", "longer", "--adaptive")
    assert not (longer.folder / "adaptive.json").exists()
