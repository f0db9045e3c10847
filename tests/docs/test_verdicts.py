"""The verdicts on the pages equal the stored ones, and their commands define the stored runs."""

import json
import re
import shlex
from dataclasses import fields
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from in_full import long
from verdicts import DOCS, KEPT, page_of, row_of, verdict

from rlexp.app.execution.request import read_request
from rlexp.app.workspace import Workspace
from rlexp.config.compose import compose
from rlexp.config.validate import validate
from rlexp.protocol.schema_1 import RunSpecSchema1
from rlexp.protocol.spec import RunSpec
from rlexp.stats.aggregate import interquartile_mean, mean
from rlexp.stats.task_scores import TaskScores
from rlexp.store.layout import Layout

NAMES = sorted(path.stem for path in KEPT.glob("*.json"))
COMMAND = re.compile(r"`(rlexp run [^`]+)`")
WITH_A_GUIDE = {
    "corridor_snapshots",
    "jump_start",
    "prior_data",
    "recorded_data",
    "snapshots",
    "warm_start",
}
"""Benchmarks whose run ids include the policy or the data of another run, which is not stored."""
MINIMISED = {"violations", "catastrophe"}
"""Scores of which the lower one is better: a difference is by how much the first label is better."""
FAMILY_WISE = re.compile(r"family-wise level ([\d.]+\d)")
LARGEST, OF_A_RUN = 4_000, 150
"""Bytes that the stored file of a comparison may have, and further ones for each run."""


def stored_comparison(name: str) -> dict[str, Any]:
    """The stored numbers of a comparison."""
    content: dict[str, Any] = json.loads((KEPT / f"{name}.json").read_text())
    return content


def row(name: str) -> re.Match[str]:
    """The row of a benchmark on its page."""
    (match,) = row_of(name).finditer(page_of(name).read_text())
    return match


def test_every_verdict_on_a_page_is_stored() -> None:
    """Pages and stored verdicts have the same comparisons."""
    rows = re.compile(r"^\|.*`rlexp run \+benchmark=(\w+) .*then `rlexp compare", re.MULTILINE)
    shown = [name for page in DOCS.rglob("*.md") for name in rows.findall(page.read_text())]
    assert sorted(name for name in shown if row(name)[2] != "not measured yet") == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_page_equals_the_stored_verdicts(name: str) -> None:
    """The rows on the page are the output of `benchmarks/verdicts.py`."""
    assert row(name)[2] == verdict(stored_comparison(name)["pairs"])


@pytest.mark.parametrize("name", NAMES)
def test_differences_equal_those_of_the_stored_scores(name: str) -> None:
    """A difference is the first metric minus the second, on the same seeds, and its verdict follows from p."""
    content = stored_comparison(name)
    # Verdicts of schema 1 are about means.
    metric = interquartile_mean if content["schema"] == 2 else mean
    scores = {cell["label"]: cell["scores"] for cell in content["cells"]}
    (seeds,) = {tuple(sorted(map(int, values))) for values in scores.values()}
    assert tuple(range(len(seeds))) == seeds
    assert len(content["pairs"]) == len(scores) * (len(scores) - 1) // 2
    for pair in content["pairs"]:
        first, second = (
            float(metric(TaskScores.from_tasks([list(scores[pair[side]].values())])))
            for side in ("first", "second")
        )
        sign = -1 if content["cells"][0]["score"] in MINIMISED else 1
        assert sign * (first - second) == pytest.approx(pair["difference"]["estimate"])
        # With several pairs, the level of an interval may be above 1 - the family-wise level.
        (level,) = FAMILY_WISE.findall(pair["tests"])
        decided = pair["adjusted"] <= float(level)
        if pair["verdict"] == "equivalent":
            assert not decided
            assert abs(first - second) < float(content["comparison"][-1])
        else:
            assert decided != (pair["verdict"] == "undecided")


@pytest.mark.parametrize("name", NAMES)
def test_the_page_names_the_command_that_decides(name: str) -> None:
    """The row of a benchmark ends with the stored command, its margin included."""
    stored = stored_comparison(name).get("comparison", ["rlexp", "compare", name])
    assert f"then `{shlex.join(stored)}` |" in row(name)[1]


@long
@pytest.mark.parametrize("name", [name for name in NAMES if name not in WITH_A_GUIDE])
def test_the_command_defines_the_stored_runs(name: str, tmp_path: Path) -> None:
    """The command gives the stored run ids, so no default has changed since."""
    (command,) = COMMAND.findall(row(name)[1])
    request = read_request(
        shlex.split(command)[2:], Workspace(tmp_path, Layout(tmp_path / "runs"))
    )
    ids = {run_id for cell in stored_comparison(name)["cells"] for run_id in cell["runs"].values()}
    specs = list(request.specs())
    assert ids in ({spec.id for spec in specs}, {id_in_schema_1(spec) for spec in specs})


def id_in_schema_1(spec: RunSpec) -> str:
    """The id that versions of schema 1 gave to a run with these settings and this seed.

    It hashes the Python paths of classes: a class that has moved since needs its former path here.
    """
    values = {field.name: getattr(spec, field.name) for field in fields(spec)}
    return RunSpecSchema1(**values).id


@pytest.mark.parametrize("name", NAMES)
def test_stored_verdicts_are_small_and_name_no_machine(name: str) -> None:
    """The files contain no host names and no folders."""
    runs = sum(len(cell["runs"]) for cell in stored_comparison(name)["cells"])
    assert (KEPT / f"{name}.json").stat().st_size < LARGEST + OF_A_RUN * runs
    assert {"processor", "cores"} == set(stored_comparison(name)["machine"])
    # `EXPERIMENT/RUN` names a run; a folder of a machine begins with a slash.
    assert not re.search(
        r"(^|[=,])[/~.]", "\n".join(stored_comparison(name)["command"]), re.MULTILINE
    )


def test_a_difference_without_an_interval_has_a_dash() -> None:
    """Where all runs of each label are equal, the row has no interval."""
    (text,) = (verdict([pair]) for pair in stored_comparison("sparse_replays")["pairs"])
    assert text == "*worse*: `dqn replay=uniform` less `dqn replay=n_step` −1.0 [—], p = 0.002"


def test_all_runs_of_the_corridor_are_as_the_page_says() -> None:
    """Every run with n-step returns reaches the end, and none with uniform replay."""
    scores = [
        set(cell["scores"].values()) for cell in stored_comparison("sparse_replays")["cells"]
    ]
    assert [{0.0}, {1.0}] == scores


@pytest.mark.parametrize("replay", ["uniform", "prioritised"])
def test_rare_rewards_differ_by_the_replay_only(replay: str, tmp_path: Path) -> None:
    """Both sides act at random in all of the training, and have as many evaluations as the page says."""
    (composed,) = compose(["+benchmark=rare_rewards", f"replay={replay}"], tmp_path)
    root, parts = validate(composed.plain)
    assert parts.algorithm.exploration_initial_eps == 1
    assert parts.algorithm.exploration_final_eps == 1
    assert root.budget.evaluation_every is not None
    evaluations = root.budget.steps // root.budget.evaluation_every
    assert f"scored by the share of {evaluations} evaluations" in row("rare_rewards")[1]


@pytest.mark.parametrize("name", ["corridor_snapshots", "jump_start", "snapshots"])
def test_the_page_counts_the_runs_that_reach_the_goal(name: str) -> None:
    """The page says how many runs with a guide, and without one, have a score above 0."""
    text = " ".join((DOCS / "guides" / "components.md").read_text().split())
    plain, guided = (
        f"{sum(score > 0 for score in cell['scores'].values())} of {len(cell['scores'])}"
        for cell in stored_comparison(name)["cells"]
    )
    found = re.search(
        rf"In the row of `{name}`, (\d+ of \d+) runs .*? and (\d+ of \d+) plain runs", text
    )
    assert found is not None
    assert (guided, plain) == found.groups()


@pytest.mark.skipif("constraints_as_terminations" not in NAMES, reason="not measured yet")
def test_the_page_has_the_measured_costs() -> None:
    """The numbers on constraints are means over the final evaluations of the stored runs."""
    text = " ".join((DOCS / "guides" / "components.md").read_text().split())
    for cell in stored_comparison("constraints_as_terminations")["cells"]:
        shares, costs = (cell["measures"][name] for name in ("violations", "cost"))
        assert f"{fmean(shares):.2f}" in text
        assert f"{min(shares):.2f} to {max(shares):.2f}" in text
        assert f"{fmean(costs):.0f}" in text
