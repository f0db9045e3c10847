"""Runs in an environment of one's own are scored, listed, compared and exported by its measures."""

import csv
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import give, give_json, rlexp, typed
from last_words import last_words
from quick_parts import quick_parts
from shop_environment import SHOP, open_shop
from stored_runs import ended, evaluated, stored, study

from rlexp.app.commands.exchange.load import load
from rlexp.app.commands.look.list_runs import ListRequest, list_runs
from rlexp.cli.look.list_runs import show_listing
from rlexp.console import Console
from rlexp.errors import ProtocolError
from rlexp.records.events import Ending
from rlexp.store.layout import Layout

GRID = ("environment.arguments.price=1.0,4.0", "seeds.test=4")
quick = pytest.fixture(autouse=True)(quick_parts)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study with the experiment `dear`: two prices on four seeds, scored by their cost."""
    folder = open_shop(tmp_path_factory.mktemp("shop"))
    with pytest.MonkeyPatch.context() as patch:
        quick_parts(patch)
        give(folder, "run", *SHOP, *GRID, "experiment=dear", "budget.score=cost")
    return folder


def test_runs_are_scored_by_the_measure(shop: Path) -> None:
    """The score of a run is the mean cost of its final episodes, and other measures follow."""
    shown = give(shop, "show", "dear", "--full")
    assert "score: mean cost of the final policy, lower is better" in shown
    assert "Lower is better." in give(shop, "show", "dear")
    assert "mean success" in shown
    document = give_json(shop, "experiment-details", "show", "dear")
    (cheap, _) = document["phases"][0]["cells"]
    cost, success = cheap["measures"]
    assert cheap["scores"] == cost["values"]
    assert ("minimise", "maximise") == (cost["direction"], success["direction"])
    assert 0 <= success["estimate"]["low"]
    assert success["estimate"]["high"] <= 1


def test_the_listing_has_a_column_of_measures(shop: Path) -> None:
    """Each listed run has its measures, as text and as numbers."""
    rows = give_json(shop, "listing", "ls", "dear")["rows"]
    assert all(row["score"] == row["measure_means"]["cost"] for row in rows)
    assert "cost " in give(shop, "ls", "dear")


def test_listings_select_sort_and_show_by_measures(shop: Path) -> None:
    """Runs have their own mean of a measure; labels and experiments have the mean that `show` has."""
    cells = give_json(shop, "experiment-details", "show", "dear")["phases"][0]["cells"]
    costs = [c["measures"][0]["estimate"]["estimate"] for c in cells]
    between = f"{sum(costs) / 2}"

    def listed(*words: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = give_json(shop, "listing", "ls", *words)["rows"]
        return rows

    (row,) = listed("--columns", "cost", "--where", f"cost<{between}")
    assert costs == row["columns"]["cost"]
    assert [] == listed("--where", f"cost<{min(costs) - 1}")
    (cheap,) = listed("--group", "--where", f"cost<{between}", "--columns", "cost")
    assert ("ppo price=1.0", min(costs)) == (cheap["label"], cheap["columns"]["cost"])
    by_cost = [row["score"] for row in listed("dear", "--sort", "-cost")]
    assert sorted(by_cost, reverse=True) == by_cost
    names = {
        row["name"] for row in give_json(shop, "listing-columns", "ls", "--list-columns")["rows"]
    }
    assert {"cost", "success"} <= names
    assert (
        "there is no column 'suces'; did you mean 'success'?"
        in typed(shop, "ls", "--where", "suces>0.5").err
    )


def test_a_narrow_terminal_leaves_out_wide_columns(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At 80 columns no row is folded, and a command shows the columns that are left out."""
    listing = list_runs(ListRequest("dear", where=("seed=0",)), study(shop))
    console = Console()
    console.out.width = 80
    show_listing(listing, console)
    lines = capsys.readouterr().out.splitlines()
    assert ["Left", "out"] == lines[-1].split()[:2]
    assert max(map(len, lines[:-1])) <= 80
    assert len(listing.rows) == sum(line.startswith("ppo-test-0-") for line in lines)
    command = lines[-1].partition("; to see them: ")[2]
    assert "rlexp ls dear --where seed=0 --columns run,measures" in command
    assert "cost" in give(shop, *shlex.split(command)[1:])
    console.out.width = 200
    show_listing(listing, console)
    assert "Left out" not in capsys.readouterr().out


def test_a_label_must_fulfil_all_conditions_on_keys_and_measures(shop: Path) -> None:
    """An experiment is not listed where one label has the price and another one has the cost."""
    cells = give_json(shop, "experiment-details", "show", "dear")["phases"][0]["cells"]
    cheap, dear = (c["measures"][0]["estimate"]["estimate"] for c in cells)
    below = ("--where", f"cost<{(cheap + dear) / 2}")
    for price, rows in (("1.0", 1), ("4.0", 0)):
        where = ("--where", f"environment.arguments.price={price}")
        assert rows == len(give_json(shop, "listing", "ls", *below, *where)["rows"])


def test_a_measure_with_the_name_of_a_column_has_a_prefix(tmp_path: Path) -> None:
    """The measure `step` of a run is written `measure/step`, and `step` stays the column."""
    final = replace(evaluated(100, 10.0, 20.0, final=True), measures={"step": (3.0, 5.0)})
    stored(Layout(tmp_path / "runs")).attempt(0, [final, ended(Ending.COMPLETED)])
    listing = give_json(tmp_path, "listing", "ls", "alpha", "--columns", "step,measure/step")
    assert {"step": 100, "measure/step": 4.0} == listing["rows"][0]["columns"]
    assert "measure/step" in give(tmp_path, "ls", "alpha", "--list-columns")


def test_the_lower_cost_is_better(shop: Path) -> None:
    """A comparison of costs finds that the lower one is better, and has a table of measures."""
    assert "Lower is better." in give(shop, "compare", "dear", "--set", "repetitions=500")
    compared = give(shop, "compare", "dear", "--set", "repetitions=500", "--full")
    assert "scores lower on Shop-v0" in compared
    assert "ppo price=1.0 is better than ppo price=4.0" in compared
    assert "Measures of every label on every task" in compared
    assert "In units of the cost." in compared


def test_a_sequential_comparison_finds_the_lower_cost(tmp_path: Path) -> None:
    """A sequential comparison finds that the lower cost is better."""
    folder = open_shop(tmp_path / "again")
    words = (*SHOP, GRID[0], "experiment=dear", "budget.score=cost", "seeds.test=4")
    give(folder, "run", *words)
    options = ("--adaptive", "--group", "4", "--interims", "1", "--alpha", "0.2")
    shown = give(folder, "compare", "dear", *options, "--allow-import", "shop")
    assert "ppo price=1.0 is better than ppo price=4.0" in shown


def test_exported_tables_have_a_column_for_each_measure(shop: Path) -> None:
    """Runs, evaluations and episodes have columns of success and cost in a CSV export."""
    give(shop, "export", "csv", "dear", "--output", str(shop / "tables"), "--force")
    for name, rows in (("scores", 8), ("evaluations", 24), ("episodes", 64)):
        with (shop / "tables" / f"{name}.csv").open() as file:
            table = list(csv.DictReader(file))
        assert rows == len(table)
        assert all(row["cost"] and row["success"] for row in table)
    with (shop / "tables" / "scores.csv").open() as file:
        assert all(row["score"] == row["cost"] for row in csv.DictReader(file))


def test_notebooks_read_measures_as_arrays(shop: Path) -> None:
    """`rlexp.load` returns the measures of runs, and the curve of a measure."""
    records = load(shop / "runs" / "dear")
    label = "ppo price=1.0"
    assert records.scores(label).tolist() == records.measure("cost", label).tolist()
    steps, costs = records.curves(label, quantity="cost")
    assert ([16, 32], (4, 2)) == (steps.tolist(), costs.shape)
    with pytest.raises(ProtocolError, match="there is no measure 'sucess'; did you mean"):
        records.measure("sucess", label)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["budget.score=sucess"], "did you mean 'success'?"),
        (["budget.score=finl"], "did you mean 'final'?"),
        (["budget.score=return"], "must be final, auc, last_window"),
        (
            ["environment.measures.cost.direction=down", "budget.score=cost"],
            "must be 'maximise' or 'minimise'",
        ),
        (
            ["environment.measures.cost.largest=3"],
            "unknown key 'environment.measures.cost.largest'",
        ),
        (["environment.measures.cost.minimum=30"], "minimum=30 must be less than maximum=20"),
        (
            ["environment.measures.cost.maximum=null", "budget.score=cost", "failures=worst"],
            "set environment.measures.cost.maximum",
        ),
    ],
)
def test_wrong_words_are_refused_before_any_run(
    tmp_path: Path, words: list[str], message: str
) -> None:
    """A measure that does not exist, and a wrong declaration, give one line and change nothing."""
    folder = open_shop(tmp_path)
    printed = typed(folder, "run", *SHOP, *words)
    assert (2, "") == (printed.code, printed.out)
    assert message in printed.err
    assert 1 == printed.err.count("\n")
    assert [] == [*(folder / "runs").glob("*")]


def test_a_task_without_the_measure_is_refused(tmp_path: Path) -> None:
    """A task whose episodes report no measure cannot be scored by one."""
    printed = typed(tmp_path, "run", "environment=cartpole", "budget.score=success")
    assert 2 == printed.code
    assert "budget.score=success: an episode of CartPole-v1 reports no measure" in printed.err


def test_an_episode_without_the_measure_fails_its_run(tmp_path: Path) -> None:
    """A run whose episode lacks the measure fails with a reason, at its first evaluation."""
    folder = open_shop(tmp_path)
    words = (*SHOP, "environment.arguments.silent=2", "budget.score=success", "seeds.test=1")
    printed = rlexp(
        folder, "run", *last_words(*words, "experiment=silent", "budget.evaluation_episodes=12")
    )
    assert 1 == printed.code
    (row,) = give_json(folder, "listing", "ls", "silent")["rows"]
    assert ("failed", "user", None) == (row["state"], row["failure"], row["score"])
    assert "episodes of the evaluation at step 16 lack it" in row["reason"]


def test_a_direction_cannot_change_later(shop: Path) -> None:
    """The direction of a score is part of the experiment: another one is refused."""
    words = (
        "experiment=dear",
        "budget.score=cost",
        "environment.measures.cost.direction=maximise",
    )
    printed = typed(shop, "run", *SHOP, *GRID, *words)
    assert 2 == printed.code
    assert "direction: existing 'minimise', requested" in printed.err


SPACE: tuple[Any, ...] = (
    *("sweep.trials=4", "sweep.allocation=fixed", "sweep.finalists=1", "sweep.lag=0"),
    *("seeds.tuning=1", "seeds.selection=0", "seeds.test=1", "tuner=random"),
    "+sweep.space.environment.arguments.price=choice(0.5,2.0,3.0)",
)


@pytest.mark.parametrize(("metric", "words"), [("eval/mean_reward", 1), ("eval/cost", 0)])
def test_a_picture_shows_the_metric_of_the_plot(shop: Path, metric: str, words: int) -> None:
    """The command that writes the picture draws the same metric, which it names unless it is the score."""
    shown = give_json(shop, "plot", "plot", "dear", "--metric", metric)
    (command,) = [step["command"] for step in shown["next"] if "--output" in step["command"]]
    assert words == command.count("--metric")
    again = give_json(shop, "plot", *shlex.split(command)[1:])
    assert metric == again["metric"]


@pytest.mark.parametrize(
    "scored",
    [("budget.score=cost",), ("sweep.objective=cost",), ("sweep.objective=[cost,score]",)],
)
def test_a_sweep_looks_for_the_lowest_cost(tmp_path: Path, scored: tuple[str, ...]) -> None:
    """The winner of a sweep over prices has the lowest cost, as score and as objective."""
    folder = open_shop(tmp_path)
    give(folder, "sweep", *SHOP, *SPACE, *scored, "experiment=prices")
    sweep = give_json(folder, "experiment-details", "show", "prices")["sweep"]
    costs = {trial["number"]: trial["value"] for trial in sweep["latest"]}
    assert len(set(costs.values())) > 1
    assert min(costs, key=lambda number: costs[number]) == sweep["winner"]
