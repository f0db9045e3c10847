"""From which states the runs of a sweep continue, and why others begin at step 0."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from finished_runs import Finished, finish
from quick_parts import quick_parts

from rlexp.app.execution import extension
from rlexp.app.sweeps import continuation
from rlexp.app.sweeps.continuation import RunStates, obstacle
from rlexp.app.workspace import Workspace
from rlexp.protocol.experiment import Configuration
from rlexp.records.run import RunRecord, State
from rlexp.store.checkpoints.inheritance import find_copy
from rlexp.store.layout import ExperimentPaths, Layout
from rlexp.store.runs import read_experiment, read_run

WORDS = ("algorithm.n_steps=16", "algorithm.batch_size=16", "agent.network=[4]")

quick = pytest.fixture(autouse=True)(quick_parts)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Finished:
    """A completed run that keeps its state; environments are not played."""
    monkeypatch.setattr(extension, "call_in_subprocess", lambda *_: None)
    return finish(tmp_path, *WORDS)


def workspace(run: Finished) -> Workspace:
    """The workspace of a run."""
    runs = run.paths.folder.parent.parent
    return Workspace(runs.parent, Layout(runs))


def states(run: Finished) -> RunStates:
    """The states of the run's experiment."""
    return RunStates(ExperimentPaths(run.paths.folder.parent), workspace(run))


def record(run: Finished) -> RunRecord:
    """The record of the run."""
    return read_run(run.paths).record


def longer(run: Finished) -> Configuration:
    """The configuration of the run with twice the steps."""
    (configuration,) = read_experiment(ExperimentPaths(run.paths.folder.parent)).configurations
    budget = replace(configuration.budget, steps=2 * record(run).step)
    return replace(configuration, budget=budget)


def test_a_run_with_other_final_episodes_is_continued(run: Finished) -> None:
    """The number of final episodes changes no training, so a longer run continues from the state."""
    asked = longer(run)
    fewer = replace(asked, budget=replace(asked.budget, final_episodes=3))
    (parent,), reason = states(run).find(fewer, [record(run)])
    assert parent is not None
    assert reason is None


def test_the_state_of_a_completed_run_is_found(run: Finished) -> None:
    """The state is named by run, step and digest; a seed without a run has none and no reason."""
    copy = find_copy(run.paths, record(run).spec.id)
    assert copy is not None
    assert ((copy.parent, None), None) == states(run).find(longer(run), [record(run), None])


@pytest.mark.parametrize("state", [State.FAILED, State.PRUNED])
def test_a_run_that_is_not_completed_is_not_continued(run: Finished, state: State) -> None:
    """The reason names the run and its state."""
    parents, reason = states(run).find(longer(run), [replace(record(run), state=state)])
    assert ((), f"run {record(run).spec.name} is {state}") == (parents, reason)


def test_a_state_that_is_gone_is_not_continued(run: Finished) -> None:
    """The reason says that the run keeps no state."""
    shutil.rmtree(run.paths.checkpoints)
    parents, reason = states(run).find(longer(run), [record(run)])
    assert () == parents
    assert reason is not None
    assert "keeps no state" in reason


def test_a_damaged_state_is_not_continued(run: Finished) -> None:
    """The reason names the damaged file."""
    copy = find_copy(run.paths, record(run).spec.id)
    assert copy is not None
    (copy.folder / "state.npz").write_bytes(b"damaged")
    parents, reason = states(run).find(longer(run), [record(run)])
    assert () == parents
    assert reason is not None
    assert "state.npz" in reason


def test_other_versions_are_continued_only_if_allowed(
    run: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With other versions the run begins at step 0; `--allow-drift` continues it."""
    monkeypatch.setattr(continuation, "describe_changes", lambda *_: "torch is another one")
    finder = states(run)
    parents, reason = finder.find(longer(run), [record(run)])
    assert () == parents
    assert reason is not None
    assert reason.endswith("trained with other versions: torch is another one")
    finder.allow_drift = True
    assert finder.find(longer(run), [record(run)])[0]


def test_a_setting_that_follows_the_budget_is_not_continued(run: Finished) -> None:
    """Runs whose configurations differ in more than their steps are different trainings."""
    configuration = longer(run)
    other = replace(configuration, algorithm={**configuration.algorithm, "gamma": 0.5})
    parents, reason = states(run).find(other, [record(run)])
    assert () == parents
    assert reason is not None
    assert "more than budget.steps differs" in reason


def test_settings_that_depend_on_the_length_are_an_obstacle(run: Finished) -> None:
    """A linear schedule, and `budget.keep_last=false`, are named; nothing else is in the way."""
    configuration = longer(run)
    linear = {"shape": "linear", "initial": 1e-3}
    scheduled = {**configuration.algorithm, "learning_rate": linear}
    unkept = replace(configuration.budget, keep_last=False)
    expected = "algorithm.learning_rate depends on the length of training"
    assert obstacle(configuration, workspace(run)) is None
    assert expected == obstacle(replace(configuration, algorithm=scheduled), workspace(run))
    assert "budget.keep_last=false keeps no states" == obstacle(
        replace(configuration, budget=unkept), workspace(run)
    )


def test_a_run_without_a_state_shares_nothing(run: Finished) -> None:
    """A member that keeps no replay buffer is named and left out, so that its sweep goes on."""
    spec = record(run).spec
    assert (None, (spec.name,)) == states(run).share([spec])
    assert (None, ()) == states(run).share([])
