"""`rlexp compare`: verdicts, tables and numbers of good records."""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from command_line import give, give_json
from comparisons import FAR, NEAR, QUICK, said, with_scores
from quick_parts import quick_parts
from stored_runs import study

from rlexp.app.commands.compare import SECTIONS, CompareRequest, compare
from rlexp.app.results import to_json
from rlexp.app.workspace import Workspace

quick = pytest.fixture(autouse=True)(quick_parts)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """An empty study, in whose folder the command is given."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RLEXP_RUNS", raising=False)
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "home"))
    return study(tmp_path)


@pytest.fixture
def say(place: Workspace) -> Callable[..., str]:
    """What a comparison says to people."""
    return partial(said, place)


def test_better_is_said_first_and_shown_task_by_task(
    place: Workspace, say: Callable[..., str]
) -> None:
    """The verdict comes with its test, then each task, the aggregates, every test, what is gone."""
    with_scores(place, FAR)
    text = say("alpha")
    # 2 of the 252 relabellings of 5 and 5 are as extreme.
    assert "ppo is better than a2c: a difference of 80 " in text
    assert f"p = {2 / 252:.3g}" in text
    headings = ("IQM of every label on every task", "Aggregates", "Every test of every pair")
    places = [text.index(words) for words in ("ppo is better", *headings)]
    assert sorted(places) == places
    assert re.search(r"^CartPole-v1  ppo +5 of 5 +92\.\d+ \[", text, re.MULTILINE)
    assert "Every planned run has a score: 10 of 10." in text


def test_undecided_says_how_many_more_seeds(place: Workspace, say: Callable[..., str]) -> None:
    """Where chance may be the reason, it says so, and how many seeds would decide."""
    with_scores(place, NEAR)
    text = say("alpha")
    assert "Undecided between ppo and a2c" in text
    assert "more seeds" in text


def test_the_same_scores_give_the_same_words(place: Workspace, say: Callable[..., str]) -> None:
    """Nothing depends on anything but the records; another seed moves intervals only."""
    with_scores(place, NEAR)
    first = say("alpha")
    assert first == say("alpha")
    other = say("alpha", overrides=("seed=1",))
    verdict = re.compile(r"^Undecided.+$", re.MULTILINE)
    assert verdict.findall(first) == verdict.findall(other) != []


def test_experiments_are_compared_with_each_other(
    place: Workspace, say: Callable[..., str]
) -> None:
    """Labels of several experiments stand side by side, told apart by their experiments."""
    with_scores(place, {"ppo": FAR["ppo"]}, "new")
    with_scores(place, {"ppo": FAR["a2c"]}, "old")
    assert "new/ppo is better than old/ppo" in say("new", "old")
    with_scores(place, FAR)
    assert "ppo is better than a2c" in say("alpha/ppo", "alpha/a2c")


def test_a_margin_makes_equivalence_possible(place: Workspace, say: Callable[..., str]) -> None:
    """Without a margin nothing is equivalent; within a declared one it is."""
    scores = tuple(50.0 + seed % 3 for seed in range(12))
    with_scores(place, {"ppo": scores, "a2c": scores})
    assert "Undecided between ppo and a2c" in say("alpha")
    assert "ppo and a2c are equivalent" in say("alpha", overrides=("margin=20",))


def test_strict_exits_with_3(place: Workspace, say: Callable[..., str]) -> None:
    """What is missing is a failed check; without --strict the exit code is 0."""
    with_scores(place, {"ppo": NEAR["ppo"], "a2c": NEAR["a2c"][:2]})
    assert "Check failed" not in say("alpha")
    assert "Check failed: " in say("alpha", strict=True, code=3)


def test_machines_get_every_number(place: Workspace) -> None:
    """With --json there is one document, with the sections and the next commands."""
    with_scores(place, NEAR)
    words = ("compare", "alpha", "--set", QUICK[0])
    found = give_json(place.folder, "comparison", *words)
    wanted = ["verdicts", "tasks", "aggregates", "pairs", "missing"]
    assert wanted == [part["name"] for part in found["parts"]]
    tables = [b for part in found["parts"] for b in part["blocks"] if b["kind"] == "table"]
    assert "tasks" in [table["name"] for table in tables]
    assert "rlexp report alpha --set repetitions=500" == found["next"][0]["command"]


def test_the_numbers_are_those_of_a_report(place: Workspace) -> None:
    """The use case returns the same sections that a report of the same settings has."""
    with_scores(place, NEAR)
    request = CompareRequest(targets=("alpha",), overrides=QUICK)
    parts = to_json(compare(request, place).parts)
    words = ("--set", QUICK[0], "--set", SECTIONS)
    give(place.folder, "report", "alpha", *words, "--format", "json", "-o", "out")
    assert json.loads((place.folder / "out" / "report.json").read_text())["parts"] == parts
