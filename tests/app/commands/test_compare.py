"""`rlexp compare` prints verdicts, tables and numbers of valid records."""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from command_line import give, give_json
from comparisons import FAR, NEAR, QUICK, comparison_output, with_scores
from quick_parts import quick_parts
from stored_runs import study

from rlexp.app.commands.judge.compare import SECTIONS, CompareRequest, compare
from rlexp.app.results import to_json
from rlexp.app.workspace import Workspace

quick = pytest.fixture(autouse=True)(quick_parts)


@pytest.fixture
def empty_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """An empty workspace, which is the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RLEXP_RUNS", raising=False)
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "home"))
    return study(tmp_path)


@pytest.fixture
def output_of(empty_workspace: Workspace) -> Callable[..., str]:
    """The text output of a comparison."""
    return partial(comparison_output, empty_workspace)


def test_the_verdict_comes_first_and_then_each_task(
    empty_workspace: Workspace, output_of: Callable[..., str]
) -> None:
    """The verdict is printed first, then tasks, aggregates and all tests."""
    with_scores(empty_workspace, FAR)
    text = output_of("alpha")
    # 2 of the 252 ways to label 5 and 5 scores give a difference as extreme as this one.
    assert "ppo is better than a2c: a difference of 80 " in text
    assert f"p = {2 / 252:.3g}" in text
    headings = ("IQM of every label on every task", "Aggregates", "Every test of every pair")
    positions = [text.index(heading) for heading in ("ppo is better", *headings)]
    assert sorted(positions) == positions
    assert re.search(r"^CartPole-v1  ppo +5 of 5 +92\.\d+ \[", text, re.MULTILINE)
    assert "Every planned run has a score: 10 of 10." in text


def test_an_undecided_verdict_names_what_could_be_found(
    empty_workspace: Workspace, output_of: Callable[..., str]
) -> None:
    """An undecided verdict names the difference that its seeds could find."""
    with_scores(empty_workspace, NEAR)
    text = output_of("alpha")
    assert "Undecided between ppo and a2c" in text
    assert "is found with 80 % power" in text


def test_equal_records_give_equal_output(
    empty_workspace: Workspace, output_of: Callable[..., str]
) -> None:
    """The output depends only on the records; another seed changes only the intervals."""
    with_scores(empty_workspace, NEAR)
    first = output_of("alpha")
    assert first == output_of("alpha")
    with_other_seed = output_of("alpha", overrides=("seed=1",))
    verdict = re.compile(r"^Undecided.+$", re.MULTILINE)
    assert verdict.findall(first) == verdict.findall(with_other_seed) != []


def test_experiments_are_compared_with_each_other(
    empty_workspace: Workspace, output_of: Callable[..., str]
) -> None:
    """Labels of several experiments are shown together, prefixed by their experiment."""
    with_scores(empty_workspace, {"ppo": FAR["ppo"]}, "new")
    with_scores(empty_workspace, {"ppo": FAR["a2c"]}, "old")
    assert "new/ppo is better than old/ppo" in output_of("new", "old")
    with_scores(empty_workspace, FAR)
    assert "ppo is better than a2c" in output_of("alpha/ppo", "alpha/a2c")


def test_a_margin_makes_equivalence_possible(
    empty_workspace: Workspace, output_of: Callable[..., str]
) -> None:
    """Equal scores are undecided without a margin and equivalent with a margin."""
    scores = tuple(50.0 + seed % 3 for seed in range(12))
    with_scores(empty_workspace, {"ppo": scores, "a2c": scores})
    assert "Undecided between ppo and a2c" in output_of("alpha")
    assert "ppo and a2c are equivalent" in output_of("alpha", overrides=("margin=20",))


def test_strict_exits_with_3(empty_workspace: Workspace, output_of: Callable[..., str]) -> None:
    """With --strict, a missing run is a failed check with exit code 3."""
    with_scores(empty_workspace, {"ppo": NEAR["ppo"], "a2c": NEAR["a2c"][:2]})
    assert "Check failed" not in output_of("alpha")
    assert "Check failed: " in output_of("alpha", strict=True, code=3)


def test_json_has_sections_and_next_commands(empty_workspace: Workspace) -> None:
    """With --json there is one document, with the sections and the next commands."""
    with_scores(empty_workspace, NEAR)
    arguments = ("compare", "alpha", "--set", QUICK[0])
    document = give_json(empty_workspace.folder, "comparison", *arguments)
    expected = ["verdicts", "tasks", "aggregates", "pairs", "missing"]
    assert expected == [part["name"] for part in document["parts"]]
    tables = [b for part in document["parts"] for b in part["blocks"] if b["kind"] == "table"]
    assert "tasks" in [table["name"] for table in tables]
    assert "rlexp report alpha --set repetitions=500" == document["next"][0]["command"]


def test_the_numbers_equal_those_of_a_report(empty_workspace: Workspace) -> None:
    """A comparison has the same sections as a report with the same settings."""
    with_scores(empty_workspace, NEAR)
    request = CompareRequest(targets=("alpha",), overrides=QUICK)
    parts = to_json(compare(request, empty_workspace).parts)
    arguments = ("--set", QUICK[0], "--set", SECTIONS)
    give(empty_workspace.folder, "report", "alpha", *arguments, "--format", "json", "-o", "out")
    assert (
        json.loads((empty_workspace.folder / "out" / "report.json").read_text())["parts"] == parts
    )
