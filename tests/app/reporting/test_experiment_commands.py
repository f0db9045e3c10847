"""The page and the terminal offer the same next commands for one experiment."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import give_json, rlexp
from finished_runs import TINY, finish
from last_words import last_words
from quick_parts import quick_parts
from samples import gymnasium_task
from stored_runs import (
    PROVENANCE,
    Stored,
    completed,
    configuration,
    ended,
    failed,
    stored,
    study,
)
from stored_sweeps import stored_sweep

from rlexp.app.commands.judge.report import ReportRequest, compute_report
from rlexp.app.commands.look.show import ExperimentDetails, ShowPart, show
from rlexp.config.report_settings import read_report
from rlexp.engine.sweep_source import SweepStage
from rlexp.protocol.seeds import Phase
from rlexp.records.events import Ending
from rlexp.store.layout import Layout
from rlexp.store.locks.lease import hold

quick = pytest.fixture(autouse=True)(quick_parts)

ON_THE_PAGE = {"write the report", "compare", "see every detail"}
"""What the page itself shows, so that it does not offer the command."""


def of_terminal(folder: Path, name: str) -> dict[str, str]:
    """The next commands of `rlexp show`, by their purposes."""
    details = show(name, ShowPart.RESULT, study(folder))
    assert isinstance(details, ExperimentDetails)
    return {step.why: step.command for step in details.next}


def of_page(folder: Path, name: str, phase: Phase | None = None) -> dict[str, str]:
    """The next commands on the page of `rlexp report`, by their purposes."""
    workspace = study(folder)
    parts = read_report((), workspace.folder, workspace.allowed)
    _, page = compute_report(ReportRequest(targets=(name,), phase=phase), parts, workspace)
    assert page.card is not None
    return {step.why: step.command for step in page.card.commands}


def finished(folder: Path) -> Stored:
    """An experiment whose runs all have a score."""
    alpha = stored(Layout(folder / "runs"))
    command = ["rlexp", "run", "experiment=alpha", "seeds.test=3"]
    recorded = {**PROVENANCE, "command": command, "folder": str(folder)}
    for seed in range(3):
        alpha.attempt(seed, completed(100.0 + seed), provenance=recorded)
    return alpha


def interrupted(folder: Path) -> Stored:
    """An experiment with an interrupted run."""
    alpha = stored(Layout(folder / "runs"))
    alpha.attempt(0, completed(100.0))
    alpha.attempt(1, [ended(Ending.INTERRUPTED, 60)])
    return alpha


TUNED = ("rlexp", "run", "algorithm=ppo,a2c", "phase=tuning", "seeds.tuning=2", "experiment=alpha")


def tuning_only(folder: Path, command: Sequence[str] = TUNED) -> Stored:
    """An experiment whose runs are on tuning seeds."""
    alpha = stored(Layout(folder / "runs"))
    recorded = {**PROVENANCE, "command": list(command), "folder": str(folder)}
    for seed in range(2):
        alpha.attempt(seed, completed(100.0), phase=Phase.TUNING, provenance=recorded)
    return alpha


def with_failed_run(folder: Path) -> Stored:
    """An experiment with a run that failed for good, and no run that is missing."""
    alpha = stored(Layout(folder / "runs"))
    for seed in range(2):
        alpha.attempt(seed, completed(100.0))
    alpha.attempt(2, failed())
    return alpha


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (finished, "add seeds"),
        (tuning_only, "train test runs"),
        (interrupted, "continue"),
        (with_failed_run, "repeat the failed runs"),
    ],
)
def test_page_and_terminal_agree(
    tmp_path: Path, make: Callable[[Path], Stored], expected: str
) -> None:
    """The page offers every command of `show` but those for what is on the page."""
    make(tmp_path)
    terminal, page = of_terminal(tmp_path, "alpha"), of_page(tmp_path, "alpha")
    assert expected in page
    assert page == {why: c for why, c in terminal.items() if why not in ON_THE_PAGE}


@pytest.mark.parametrize("labels", [5, 8])
def test_page_and_terminal_agree_on_many_labels(tmp_path: Path, labels: int) -> None:
    """Both compare many labels, with the same answer and the same next commands."""
    names = [f"l{number}" for number in range(labels)]
    alpha = stored(Layout(tmp_path / "runs"), "alpha", *map(configuration, names), test=6)
    for number, name in enumerate(names):
        for seed in range(6):
            alpha.complete(seed, 100.0 * (number > labels - 3) + 3 * seed + number, label=name)
    shown = show("alpha", ShowPart.RESULT, study(tmp_path))
    assert isinstance(shown, ExperimentDetails)
    assert shown.card is not None
    parts = read_report(("section=[]",), tmp_path, ())
    _, page = compute_report(ReportRequest(targets=("alpha",)), parts, study(tmp_path))
    assert page.card is not None
    assert (page.card.text, page.card.basis) == (shown.card.text, shown.card.basis)
    assert shown.card.text.startswith(f"{names[-1]} is better than ")
    terminal, on_page = of_terminal(tmp_path, "alpha"), of_page(tmp_path, "alpha")
    assert "add seeds until every pair is decided" in on_page
    assert on_page == {why: c for why, c in terminal.items() if why not in ON_THE_PAGE}


@pytest.mark.parametrize(
    ("until", "runs", "expected"),
    [
        (SweepStage.TEST, None, "train the winner again"),
        (SweepStage.TEST, 3, "continue"),
        (SweepStage.SELECTION, None, "continue"),
    ],
)
def test_page_and_terminal_agree_on_a_sweep(
    tmp_path: Path, until: SweepStage, runs: int | None, expected: str
) -> None:
    """The page of a sweep offers the commands of `show`, at every stage."""
    stored_sweep(tmp_path).go_on(until, runs)
    terminal, page = of_terminal(tmp_path, "made_up"), of_page(tmp_path, "made_up")
    assert expected in page
    assert page == {why: c for why, c in terminal.items() if why not in ON_THE_PAGE}


def test_a_running_experiment_is_followed(tmp_path: Path) -> None:
    """While a command runs an experiment, no command is offered that would be refused."""
    alpha = interrupted(tmp_path)
    with hold(alpha.paths.lock, "experiment alpha", now=0.0):
        terminal, page = of_terminal(tmp_path, "alpha"), of_page(tmp_path, "alpha")
    assert {"see every run", "follow it"} == set(terminal) == set(page)
    assert "rlexp status alpha --watch" == page["follow it"]


def test_more_seeds_come_from_the_recorded_command(tmp_path: Path) -> None:
    """The command that adds seeds is the recorded one with twice as many seeds."""
    finished(tmp_path)
    added = of_terminal(tmp_path, "alpha")["add seeds"]
    assert "rlexp run experiment=alpha seeds.test=6" == added


def test_a_command_with_fewer_seeds_adds_to_those_of_the_experiment(tmp_path: Path) -> None:
    """After a command that requests a part of the seeds, the command that adds seeds adds new ones."""
    words = last_words(*TINY, "algorithm.n_steps=16", "algorithm.batch_size=16")
    finish(tmp_path, *words, "seeds.test=2")
    printed = give_json(tmp_path, "run-outcome", "run", *words)
    (added,) = (step["command"] for step in printed["next"] if step["why"] == "add seeds")
    assert "seeds.test=4" == shlex.split(added)[-1]


def test_test_runs_come_from_the_recorded_command(tmp_path: Path) -> None:
    """The recorded command is repeated in the test phase, without the seeds of the other phase."""
    tuning_only(tmp_path)
    command = of_terminal(tmp_path, "alpha")["train test runs"]
    assert "rlexp run algorithm=ppo,a2c experiment=alpha phase=test" == command


def test_a_command_with_a_masked_secret_is_not_repeated(tmp_path: Path) -> None:
    """A mask is not the value that was typed, so the command would fail."""
    tuning_only(tmp_path, [*TUNED, "tracker.key=********"])
    assert "train test runs" not in of_terminal(tmp_path, "alpha")


def test_a_page_of_tuning_runs_names_the_test_runs(tmp_path: Path) -> None:
    """Where test runs exist, the page of the tuning runs leads to their page."""
    alpha = tuning_only(tmp_path)
    alpha.complete(0, 100.0)
    page = of_page(tmp_path, "alpha", Phase.TUNING)
    assert "rlexp report alpha" == page["see the test runs"]
    assert "train test runs" not in page


def test_a_command_of_another_folder_is_not_offered(tmp_path: Path) -> None:
    """A command that was recorded in another folder may define other runs here."""
    alpha = stored(Layout(tmp_path / "runs"))
    command = ["rlexp", "run", "experiment=alpha"]
    for seed in range(3):
        alpha.attempt(seed, completed(1.0), provenance={**PROVENANCE, "command": command})
    assert "add seeds" not in of_terminal(tmp_path, "alpha")


def test_show_adds_test_seeds_to_a_list(tmp_path: Path) -> None:
    """`show SWEEP` offers test seeds where `seeds.test` is a list, and the command is accepted."""
    sweep = stored_sweep(tmp_path, "seeds.test=[4,1]", "seeds.selection=[0,7]")
    command = ["rlexp", "sweep", *sweep.words]
    sweep.provenance = {**PROVENANCE, "command": command, "folder": str(tmp_path)}
    sweep.go_on()
    printed = rlexp(tmp_path, "show", "made_up").out
    (line,) = [line for line in printed.splitlines() if line.startswith("To add test seeds: ")]
    program, *typed = shlex.split(line.partition(": ")[2])
    assert ("rlexp", "seeds.test=[4,1,2,3]") == (program, typed[-1])
    assert " 4 runs × 100 environment steps" in rlexp(tmp_path, *typed, "--dry-run").out


def test_commands_for_code_of_the_user_allow_it(tmp_path: Path) -> None:
    """The commands that import an environment of the user name its package."""
    corridor = gymnasium_task("Corridor-v0", imports=["corridor"])
    alpha = stored(
        Layout(tmp_path / "runs"), "alpha", replace(configuration(), environment=corridor)
    )
    alpha.attempt(0, [ended(Ending.INTERRUPTED, 60)])
    command = of_terminal(tmp_path, "alpha")["continue"]
    assert "rlexp resume alpha --allow-import corridor" == command
