"""`rlexp reproduce` repeats extended runs, from the states of their parents or with the parents."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import give
from finished_runs import finish
from reproducible_studies import GitStudy, trained
from warm_processes import warm_up

from rlexp.app.commands.exchange.reproduce import Reproduction, ReproductionRequest, reproduce
from rlexp.app.commands.train.extend import ExtendOptions, extend
from rlexp.app.commands.train.run import RunOptions, run
from rlexp.app.execution import extension
from rlexp.app.observer import SilentObserver
from rlexp.app.reproduction.original import read_original
from rlexp.app.workspace import Workspace
from rlexp.cli.exchange.reproduce import reproduction_lines
from rlexp.errors import RecordError
from rlexp.executors import local
from rlexp.store.files import publish_json
from rlexp.store.layout import Layout, RunPaths

QUIET = ExtendOptions(probe=False)
SMALL = ("algorithm.n_steps=16", "algorithm.batch_size=16", "agent.network=[4]")


@pytest.fixture
def warm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork runs from a process that has imported most modules."""
    warm_up(monkeypatch, local)


@pytest.fixture
def replayable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Environments are not played before an extension."""
    monkeypatch.setattr(extension, "call_in_subprocess", lambda *_: None)


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a run of 64 steps, its extension to 100 steps, and that one's to 150 steps."""
    folder = tmp_path_factory.mktemp("chain")
    with pytest.MonkeyPatch.context() as patch:
        warm_up(patch, local)
        patch.setattr(extension, "call_in_subprocess", lambda *_: None)
        finish(folder, *SMALL)
        for parent, steps in (("tiny", 100), ("tiny-100", 150)):
            words = [f"budget.steps={steps}", "executor.workers=1"]
            extend(parent, words, QUIET, workspace(folder), SilentObserver())
        yield folder


@pytest.fixture
def folder(chain: Path, tmp_path: Path) -> Path:
    """A copy of the folder, which a test may change."""
    return Path(shutil.copytree(chain, tmp_path / "study"))


def workspace(folder: Path) -> Workspace:
    """The workspace in a folder."""
    return Workspace(folder, Layout(folder / "runs"))


def repeat(folder: Path, target: str, **options: str) -> Reproduction:
    """Reproduce an experiment."""
    request = ReproductionRequest(**options)  # type: ignore[arg-type]
    return reproduce(target, request, workspace(folder), SilentObserver())


def verdicts(reproduction: Reproduction) -> list[tuple[str, str]]:
    """The experiment of each repeated run, and its verdict."""
    return [(run.run.partition("/")[0], str(run.verdict)) for run in reproduction.runs]


def only_run(folder: Path, experiment: str) -> RunPaths:
    """The only run of an experiment."""
    (paths,) = Layout(folder / "runs").experiment(experiment).runs()
    return paths


@pytest.mark.usefixtures("warm")
def test_an_extension_is_repeated_from_the_state_of_its_parent(
    folder: Path, tmp_path: Path
) -> None:
    """The parent is not trained again where its state is there; the records can be verified."""
    result = repeat(folder, "tiny-100", output=str(tmp_path / "kept"))
    assert [("tiny-100", "identical")] == verdicts(result)
    assert result.reproduced
    kept = Layout(tmp_path / "kept")
    assert ["tiny-100"] == [experiment.name for experiment in kept.experiments()]
    shutil.rmtree(folder / "runs")
    (tmp_path / "kept").rename(folder / "runs")
    assert "2 of 2 attempts match" in give(folder, "verify")


@pytest.mark.usefixtures("warm")
def test_parents_without_states_are_repeated_first(folder: Path) -> None:
    """After `rlexp gc --states`, a chain of extensions is repeated from its first run."""
    give(folder, "gc", "--states", "--yes")
    result = repeat(folder, "tiny-100-150")
    names = ["tiny", "tiny-100", "tiny-100-150"]
    assert [(name, "identical") for name in names] == verdicts(result)
    assert (3, True) == (result.requested, result.reproduced)
    assert not list((folder / "runs").glob("*/*/checkpoints/*/state.npz"))


def test_a_parent_that_cannot_be_repeated_is_named(folder: Path) -> None:
    """Without the state and without a completed parent, one line refuses and says what to do."""
    give(folder, "gc", "tiny", "--states", "--yes")
    journal = only_run(folder, "tiny").attempt(1).journal
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(lines[:-1]))
    with pytest.raises(RecordError, match=r"state is gone, and which is lost, .*fresh run") as e:
        repeat(folder, "tiny-100")
    assert "\n" not in str(e.value)
    shutil.rmtree(folder / "runs" / "tiny")
    with pytest.raises(RecordError, match=r"continues run tiny/.*whose records are gone: put its"):
        repeat(folder, "tiny-100")


def test_the_code_of_the_parent_is_not_that_of_the_extension(folder: Path) -> None:
    """A parent of another commit does not make the code of its extension mixed."""
    paths = only_run(folder, "tiny-100")
    provenance = paths.attempt(1).provenance
    publish_json(provenance, {"code": {"commit": "d" * 40, "dirty": [], "untracked": []}})
    original = read_original(paths)
    assert original.record.continuations
    assert (None, False) == (original.code.commit, original.mixed)


@pytest.mark.usefixtures("warm", "replayable")
def test_a_parent_that_reaches_another_state_is_not_continued(tmp_path: Path) -> None:
    """Where the code has changed, the parent differs, and the extension says that it cannot begin."""
    study = GitStudy(tmp_path / "study", "changed_task")
    study.folder.mkdir()
    constants = study.folder / "changed_task_constants.py"
    constants.write_text("SCALE = 1.0\n")
    trained(study, "", "executor.workers=1")
    extend("tiny", ["budget.steps=100"], QUIET, study.study, SilentObserver())
    give(study.folder, "gc", "--states", "--yes")
    constants.write_text("SCALE = 3.0\n")
    result = reproduce("tiny-100", ReproductionRequest(), study.study, SilentObserver())
    assert [("tiny", "different"), ("tiny-100", "failed")] == verdicts(result)
    assert (2, False) == (result.requested, result.reproduced)
    lines = "\n".join(reproduction_lines(result))
    assert "could not begin: the repetition of its parent did not reach the state of step" in lines


@pytest.mark.usefixtures("warm")
def test_a_run_that_began_with_a_policy_is_repeated(folder: Path) -> None:
    """A run with `algorithm.start_from` is repeated from its stored policy, without its origin."""
    start = f"algorithm.start_from=tiny/{only_run(folder, 'tiny').folder.name}"
    words = [*SMALL, "budget.steps=64", "budget.evaluation_every=null", "budget.final_episodes=2"]
    options = RunOptions(probe=False)
    run(
        [*words, start, "experiment=second", "seeds.test=1"],
        options,
        workspace(folder),
        SilentObserver(),
    )
    shutil.rmtree(folder / "runs" / "tiny")
    assert [("second", "identical")] == verdicts(repeat(folder, "second"))
    shutil.rmtree(folder / "runs" / "second" / "policies")
    with pytest.raises(RecordError, match=r"model.zip is missing"):
        repeat(folder, "second")
