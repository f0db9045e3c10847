"""The short forms of compare, show and run give the answer of the report, and hide nothing."""

import io
import json
import shlex
import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path

import pytest
from command_line import give, give_json, rlexp
from comparisons import FAR, NEAR, with_scores
from quick_parts import quick_parts
from stored_runs import configuration, console, ended, failed, output, stored, study

from rlexp.app.commands.look.show import ExperimentDetails, ShowPart, show
from rlexp.app.commands.train.extend import ExtendOutcome
from rlexp.app.commands.train.run import RunOutcome
from rlexp.app.reading.summary import PhaseSummary
from rlexp.app.workspace import Workspace
from rlexp.cli import spell_on_standard_output
from rlexp.cli.short_form import show_short_summary
from rlexp.cli.train.extend import show_extended
from rlexp.records.events import Ending

quick = pytest.fixture(autouse=True)(quick_parts)


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """An empty workspace, which is the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RLEXP_RUNS", raising=False)
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "home"))
    return study(tmp_path)


@pytest.mark.parametrize("scores", [FAR, NEAR, {"ppo": (1.0,), "a2c": (2.0,)}], ids=str)
def test_every_surface_gives_the_answer_of_the_report(
    workspace: Workspace, scores: dict[str, tuple[float, ...]]
) -> None:
    """The report, `compare`, `show` and their JSON documents have the same answer and cost."""
    with_scores(workspace, scores)
    folder = workspace.folder
    give(folder, "report", "alpha", "--format", "json", "--output", "page")
    card = json.loads((folder / "page" / "report.json").read_text())["card"]
    for command, schema in (("compare", "comparison"), ("show", "experiment-details")):
        document = give_json(folder, schema, command, "alpha")["card"]
        for part in ("text", "basis", "facts", "intervals"):
            assert card[part] == document[part]
        printed = give(folder, command, "alpha")
        assert card["text"] in printed
        assert card["basis"] in printed
        for name, text in card["facts"]:
            assert f"{name}: {text}." in printed


def test_thresholds_of_several_tasks_name_their_task(workspace: Workspace) -> None:
    """Each task has a line of its own, also where two tasks have the same threshold."""
    both = (configuration("ppo", "A-v0"), configuration("a2c", "B-v0"))
    alpha = stored(workspace.layout, "alpha", *both, test=1)
    alpha.complete(0, 480.0, label="ppo")
    alpha.complete(0, 470.0, label="a2c")
    printed = give(workspace.folder, "show", "alpha")
    assert "Reached the threshold of A-v0, 475: ppo 1 of 1." in printed
    assert "Reached the threshold of B-v0, 475: a2c 0 of 1." in printed


def test_full_has_more_than_the_short_form(workspace: Workspace) -> None:
    """The sections of a comparison and the seeds of an experiment need --full."""
    with_scores(workspace, NEAR)
    for command, detail in (("compare", "Every test of every pair"), ("show", "  seed 0 ")):
        short = give(workspace.folder, command, "alpha")
        assert detail not in short
        assert detail in give(workspace.folder, command, "alpha", "--full")
        assert len(short.splitlines()) <= 24
        named = next(line for line in short.splitlines() if line.endswith("--full"))
        words = shlex.split(named.partition(": ")[2])
        assert detail in give(workspace.folder, *words[1:])


def test_n_method_and_seed_are_in_the_short_form(workspace: Workspace) -> None:
    """The short form has the runs of each label, the method of the interval and its seed."""
    with_scores(workspace, FAR)
    printed = give(workspace.folder, "compare", "alpha")
    assert printed.count("5 of 5") == 2
    assert "95 % interval: t with bootstrap standard error, seed 0." in printed


def test_failed_and_missing_runs_are_in_the_short_form(workspace: Workspace) -> None:
    """A failed run is counted and named with its reason, and a missing one is counted."""
    experiment = with_scores(workspace, {"ppo": NEAR["ppo"], "a2c": NEAR["a2c"][:1]})
    experiment.attempt(1, failed(), label="a2c")
    for command in ("compare", "show"):
        printed = give(workspace.folder, command, "alpha")
        assert "1 of 3" in printed
        assert "Missing: 2 of 6 runs have no score" in printed
    assert "failed (nan) at step 60: a loss is NaN" in printed


def test_an_experiment_without_scores_is_shown(workspace: Workspace) -> None:
    """Without any score, the answer says so, and no number is shown."""
    stored(workspace.layout, "alpha", configuration("ppo"), test=1)
    printed = give(workspace.folder, "show", "alpha")
    assert "no run has a score yet" in printed
    assert "0 of 1  —" in printed


def test_an_interrupted_command_says_what_has_no_score(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a card, the first line counts the scores, and the other runs by state."""
    experiment = stored(workspace.layout, "alpha", configuration("ppo"), test=3)
    experiment.attempt(0, [ended(Ending.INTERRUPTED, 60)])
    experiment.attempt(1, [ended(Ending.INTERRUPTED, 60)])
    assert (
        "No run has a score yet: 2 of 3 runs are interrupted and 1 is planned."
        == first_line_without_card(workspace, capsys)
    )
    experiment.complete(0, 5.0)
    experiment.attempt(2, failed())
    assert (
        "1 of 3 runs has a score: 1 of 3 runs is interrupted and 1 failed."
        == first_line_without_card(workspace, capsys)
    )
    experiment.complete(1, 5.0)
    experiment.complete(2, 5.0)
    assert " a score: " not in first_line_without_card(workspace, capsys)


def first_line_without_card(workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> str:
    """The first line of the short form of `alpha` where there is no card."""
    show_short_summary(summary_of_alpha(workspace), None, console(), "rlexp show alpha --full")
    return output(capsys).splitlines()[0]


def summary_of_alpha(workspace: Workspace) -> PhaseSummary:
    """The scores and runs of `alpha`."""
    details = show("alpha", ShowPart.RESULT, workspace)
    assert isinstance(details, ExperimentDetails)
    return details.phases[0]


def test_resume_and_extend_have_both_forms(workspace: Workspace) -> None:
    """`resume` shows one screen, and every seed with --full; `extend` has the same option."""
    with_scores(workspace, FAR)
    assert "  seed 0 " not in give(workspace.folder, "resume", "alpha")
    assert "ppo is better than a2c" in give(workspace.folder, "resume", "alpha")
    assert "  seed 0 " in give(workspace.folder, "resume", "alpha", "--full")
    phase = RunOutcome(
        summary=summary_of_alpha(workspace),
        problem=None,
        ran=1,
        complete=True,
        detached=False,
        interrupted=None,
        next=(),
    )
    outcome = ExtendOutcome(
        experiment="alpha",
        parent="beta",
        steps=200,
        begins={"ppo": 100},
        restarted=(),
        parts=(phase,),
        interrupted=None,
    )
    for full in (True, False):
        printed = io.StringIO()
        with redirect_stdout(printed):
            show_extended(outcome, console(), full=full)
        assert full is ("  seed 0 " in printed.getvalue())
        assert "alpha extends beta: 1 run from step 100, up to 200" in printed.getvalue()


def test_many_labels_are_cut_and_not_compared(workspace: Workspace) -> None:
    """Twenty labels give twelve rows, the number of the others, and no verdict."""
    with_scores(workspace, {f"label{k}": (float(k), k + 1.0) for k in range(20)})
    printed = give(workspace.folder, "show", "alpha")
    assert "20 labels on CartPole-v1, not compared with each other" in printed
    assert "and 8 more labels: rlexp show alpha --full" in printed


def test_an_encoding_without_marks_spells_them(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On standard output in ASCII, the chart has ASCII marks, and nothing fails."""
    with_scores(workspace, FAR)
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written, encoding="ascii"))
    spell_on_standard_output()
    monkeypatch.setattr("command_line.redirect_stdout", nullcontext)
    rlexp(workspace.folder, "compare", "alpha")
    sys.stdout.flush()
    text = written.getvalue().decode("ascii")
    assert "ppo is better than a2c" in text
    assert "# IQM, o a run, = interval." in text
