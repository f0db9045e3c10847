"""`rlexp evaluate --ensemble` lets the test runs of an experiment act together."""

import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from command_line import typed as rlexp
from finished_runs import study
from last_words import last_words

from rlexp.app.execution.request import read_request
from rlexp.app.execution.run_process import execute
from rlexp.store.runs import new_attempt, write_experiment, write_run

WORDS = (
    *("experiment=tiny", "environment=cartpole_contexts", "seeds.test=2", "budget.steps=64"),
    *("budget.evaluation_every=null", "budget.final_episodes=2", "algorithm=ppo"),
    *("algorithm.n_steps=32", "algorithm.batch_size=16", "algorithm.n_epochs=1"),
    *("component=catastrophe", "environment.components.catastrophe.below=1000"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with an experiment of two completed runs."""
    path = tmp_path_factory.mktemp("study")
    workspace = study(path)
    request = read_request(last_words(*WORDS), workspace)
    experiment = workspace.layout.experiment("tiny")
    write_experiment(experiment, request.experiment)
    handler = signal.getsignal(signal.SIGTERM)
    try:
        for _, spec in request.experiment.specs(request.phase):
            run = experiment.run(spec.name)
            write_run(run, spec)
            new_attempt(run, {**request.operational, "allowed": []}, {}, "")
            execute([str(run.folder), "1"])
    finally:
        signal.signal(signal.SIGTERM, handler)
    return path


@pytest.fixture(autouse=True)
def _in_workspace(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def played(*words: str) -> dict[str, Any]:
    """The JSON document of an evaluation."""
    return rlexp(Path.cwd(), "evaluate", *words, "--json").document("policy-evaluation")


def test_an_ensemble_names_its_runs_and_has_measures(folder: Path) -> None:
    """Its catastrophes and its worst context are shown; every return here is a catastrophe."""
    document = played("tiny", "--ensemble", "--episodes", "50")
    runs = sorted(path.name for path in (folder / "runs" / "tiny").glob("ppo-*"))
    assert runs == document["ensemble"]
    assert 1.0 == document["measures"]["catastrophe"]
    assert "worst_of_25_contexts_by_2_episodes" in document["measures"]
    assert document == played("tiny", "--ensemble", "--episodes", "50")


def test_its_own_command_works_when_it_is_pasted() -> None:
    """The suggested command plays the same ensemble with other seeds."""
    document = played("tiny", "--ensemble", "--episodes", "4")
    (suggested,) = document["next"]
    command = suggested["command"].split()
    other = played(*command[2:])
    assert (1, document["ensemble"]) == (other["draw"], other["ensemble"])
    assert document["returns"] != other["returns"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("tiny", "--ensemble", "--video", "1"), "--ensemble makes no videos"),
        (("tiny", "--ensemble", "--stochastic"), "leave --stochastic out"),
        (("tiny",), "or let them act together: --ensemble"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(words: tuple[str, ...], message: str) -> None:
    """The error says what to type instead."""
    printed = rlexp(Path.cwd(), "evaluate", *words)
    assert printed.code != 0
    assert message in " ".join(printed.err.split())


def test_a_single_run_is_no_ensemble(folder: Path) -> None:
    """The error names the command for its experiment."""
    run = next((folder / "runs" / "tiny").glob("ppo-*")).name
    printed = rlexp(folder, "evaluate", f"tiny/{run}", "--ensemble")
    assert printed.code != 0
    assert "rlexp evaluate tiny --ensemble" in " ".join(printed.err.split())


def test_too_few_runs_lead_to_a_command_that_helps(folder: Path, tmp_path: Path) -> None:
    """A planned run is continued; a finished experiment with one run leads to the command for more seeds."""
    shutil.copytree(folder / "runs", tmp_path / "runs")
    first, second = sorted((tmp_path / "runs" / "tiny").glob("ppo-*"))
    shutil.rmtree(second)
    message = " ".join(rlexp(tmp_path, "evaluate", "tiny", "--ensemble").err.split())
    assert message.endswith("needs two; to continue its runs: rlexp resume tiny")
    definition = read_request(last_words(*WORDS, "seeds.test=1"), study(tmp_path)).experiment
    shutil.rmtree(tmp_path / "runs" / "tiny")
    write_experiment(study(tmp_path).layout.experiment("tiny"), definition)
    shutil.copytree(folder / "runs" / "tiny" / first.name, tmp_path / "runs" / "tiny" / first.name)
    message = " ".join(rlexp(tmp_path, "evaluate", "tiny", "--ensemble").err.split())
    assert message.endswith(
        "1 completed test run, and an ensemble needs two; to see how to add runs: rlexp show tiny"
    )
