"""`rlexp ls` selects, sorts and shows by any key of the recorded configuration."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import rlexp, typed
from quick_parts import quick_parts
from samples import part
from stored_runs import Stored, configuration, failed, stored

from rlexp.protocol.experiment import Configuration
from rlexp.store.layout import Layout

quick = pytest.fixture(autouse=True)(quick_parts)


def learner(label: str, **settings: Any) -> Configuration:
    """A configuration whose algorithm has these settings."""
    algorithm = part("algorithm", "ppo", "rlexp.algorithms.ppo.PPO", **settings)
    return replace(configuration(label), algorithm=algorithm)


@pytest.fixture
def grid(tmp_path: Path) -> Stored:
    """Three labels of one algorithm with two seeds each; the last label has not begun."""
    grid = stored(
        Layout(tmp_path / "runs"),
        "grid",
        learner("slow", learning_rate=0.0001, network=[64, 64], use_sde=False),
        learner("fast", learning_rate=0.01, network=[8], use_sde=True),
        learner("linear", learning_rate="lin_0.01", network=None),
        test=2,
    )
    for seed in (0, 1):
        grid.complete(seed, 10.0 + seed, label="slow")
    grid.complete(0, 50.0, label="fast")
    grid.attempt(1, failed(), label="fast")
    return grid


@pytest.fixture
def other(tmp_path: Path) -> Stored:
    """An experiment of another algorithm on another task."""
    other = stored(Layout(tmp_path / "runs"), "other", configuration("dqn", "Acrobot-v1"))
    other.complete(0, 7.0, label="dqn")
    return other


def listed(folder: Path, *words: str) -> list[dict[str, Any]]:
    """The rows of the JSON document."""
    rows: list[dict[str, Any]] = rlexp(folder, "ls", *words, "--json").document("listing")["rows"]
    return rows


def where(*conditions: str) -> list[str]:
    """The words for conditions."""
    return [word for condition in conditions for word in ("--where", condition)]


@pytest.mark.parametrize(
    ("condition", "labels"),
    [
        ("algorithm.learning_rate>0.001", {"fast"}),
        ("algorithm.learning_rate<=0.0001", {"slow"}),
        ("algorithm.learning_rate=1e-4", {"slow"}),
        ("algorithm.learning_rate!=0.01", {"slow", "linear"}),
        ("algorithm.learning_rate=lin_*", {"linear"}),
        ("algorithm.network=[64, 64]", {"slow"}),
        ("algorithm.network=[64, *", {"slow"}),
        ("algorithm.network=null", {"linear"}),
        ("algorithm.use_sde=true", {"fast"}),
        ("algorithm.use_sde=False", {"slow"}),
        ("algorithm=ppo", {"slow", "fast", "linear"}),
        ("algorithm=p?o", {"slow", "fast", "linear"}),
        ("algorithm~PP", {"slow", "fast", "linear"}),
        ("algorithm!=ppo", set()),
        ("environment=CartPole-v1", {"slow", "fast", "linear"}),
        ("label=?low", {"slow"}),
        ("budget.steps=100", {"slow", "fast", "linear"}),
        ("seeds.test>=2", {"slow", "fast", "linear"}),
        ("reference.threshold>475", set()),
    ],
)
def test_runs_are_selected_by_keys_of_their_configuration(
    grid: Stored, tmp_path: Path, condition: str, labels: set[str]
) -> None:
    """Every key of a run's configuration can be compared with a number, a text or a pattern."""
    assert labels == {row["label"] for row in listed(tmp_path, "grid", *where(condition))}


def test_a_configuration_is_selected_by_its_keys(grid: Stored, tmp_path: Path) -> None:
    """Conditions on keys apply to a listing of configurations, too."""
    rows = listed(tmp_path, "--group", *where("algorithm.learning_rate<0.001"))
    assert ["slow"] == [row["label"] for row in rows]


@pytest.mark.parametrize(
    ("conditions", "names"),
    [
        (("algorithm=dqn",), ["other"]),
        (("algorithm.learning_rate>0",), ["grid", "other"]),
        (("algorithm.learning_rate=0.01",), ["grid"]),
        (("state=failed",), ["grid"]),
        (("seed=2",), ["other"]),
        # The run of seed 1 that failed has another learning rate.
        (("state=failed", "algorithm.learning_rate=0.01"), ["grid"]),
        (("state=failed", "algorithm.learning_rate=0.0001"), []),
        (("task=CartPole-v1", "label~fast"), ["grid"]),
        (("score>40",), ["grid"]),
    ],
)
def test_an_experiment_is_listed_if_a_run_fulfils_all_conditions(
    grid: Stored, other: Stored, tmp_path: Path, conditions: tuple[str, ...], names: list[str]
) -> None:
    """An experiment stays if one of its runs fulfils all conditions on keys and on runs together."""
    assert names == [row["experiment"] for row in listed(tmp_path, *where(*conditions))]


@pytest.mark.parametrize(
    ("sort", "labels"),
    [
        ("algorithm.learning_rate", ["slow", "fast", "linear"]),
        ("-algorithm.learning_rate", ["linear", "fast", "slow"]),
        ("algorithm.use_sde", ["slow", "fast", "linear"]),
        ("-algorithm.use_sde", ["fast", "slow", "linear"]),
    ],
)
def test_a_key_sorts_numbers_by_size_and_missing_values_last(
    grid: Stored, tmp_path: Path, sort: str, labels: list[str]
) -> None:
    """Numbers are sorted by size and before text; a key that a run does not have sorts last."""
    rows = listed(tmp_path, "grid", "--sort", sort)
    assert labels == list(dict.fromkeys(row["label"] for row in rows))


def test_columns_are_printed_in_the_given_order(grid: Stored, tmp_path: Path) -> None:
    """The table has exactly the columns that were asked for, in their order."""
    columns = "algorithm.learning_rate,run,algorithm.use_sde,algorithm.network"
    lines = rlexp(tmp_path, "ls", "grid", "--columns", columns).out.splitlines()
    assert columns.split(",") == lines[0].split()
    first = grid.run(0, label="slow").folder.name
    assert ["0.0001", first, "false", "[64,", "64]"] == lines[1].split()


def test_json_carries_the_columns(grid: Stored, other: Stored, tmp_path: Path) -> None:
    """A run has the value of a column, and an experiment the list of the values of its runs."""
    (run,) = listed(
        tmp_path, "grid", *where("seed=0", "label=slow"), "--columns", "algorithm.network,seed"
    )
    assert {"algorithm.network": [64, 64], "seed": 0} == run["columns"]
    rows = listed(tmp_path, "--columns", "experiment", "--columns", "algorithm.learning_rate,iqm")
    assert [
        {
            "experiment": "grid",
            "algorithm.learning_rate": [0.0001, 0.01, "lin_0.01"],
            "iqm": None,
        },
        {"experiment": "other", "algorithm.learning_rate": [0.5], "iqm": 7.0},
    ] == [row["columns"] for row in rows]


def test_the_aggregate_is_a_column_under_its_name(other: Stored, tmp_path: Path) -> None:
    """The column `iqm` shows the aggregate as the usual table does."""
    output = rlexp(tmp_path, "ls", "--columns", "iqm,experiment").out
    assert "iqm" == output.split()[0]
    assert "7.00 (n = 1" in output


def test_an_unknown_key_is_refused_with_the_nearest_names(grid: Stored, tmp_path: Path) -> None:
    """The error about an unknown key is one line with at most eight names and a command that works."""
    for option in ("--where", "--sort", "--columns"):
        word = "learning_rat>1" if option == "--where" else "learning_rat"
        printed = typed(tmp_path, "ls", "grid", option, word)
        assert (2, "", 1) == (printed.code, printed.out, printed.err.count("\n"))
        assert "did you mean 'algorithm.learning_rate'" in printed.err
        assert printed.err.count(",") < 8
        assert printed.err.rstrip().endswith("rlexp ls grid --list-columns")
    assert 0 == rlexp(tmp_path, "ls", "grid", "--list-columns").code


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("algorithm>1", "algorithm holds text; compare it with =, != or ~"),
        ("algorithm.learning_rate>much", "'much' is not a number"),
        ("algorithm.", "is not a condition"),
        ("=ppo", "is not a condition"),
    ],
)
def test_a_condition_that_no_value_can_fulfil_is_refused(
    grid: Stored, tmp_path: Path, condition: str, message: str
) -> None:
    """A comparison that makes no sense for a key is a mistake on one line."""
    printed = typed(tmp_path, "ls", "grid", "--where", condition)
    assert (2, 1) == (printed.code, printed.err.count("\n"))
    assert message in printed.err


def test_keys_are_not_judged_where_no_run_is(tmp_path: Path) -> None:
    """Without experiments, a key of a known group is allowed, and another name is refused."""
    assert [] == listed(tmp_path, *where("algorithm.anything=1"))
    assert 2 == typed(tmp_path, "ls", *where("colour=red")).code


def test_values_are_named_where_nothing_matches(
    grid: Stored, other: Stored, tmp_path: Path
) -> None:
    """If no row has the value of a condition, the output names the values that there are."""
    output = rlexp(tmp_path, "ls", *where("algorithm=sac")).out
    assert "algorithm is never sac; it is dqn and ppo" in output


def test_all_names_are_listed_with_their_values(grid: Stored, tmp_path: Path) -> None:
    """The list of names has every column, and every key with its different values."""
    document = rlexp(tmp_path, "ls", "grid", "--list-columns", "--json").document(
        "listing-columns"
    )
    rows = {row["name"]: row for row in document["rows"]}
    assert [0.0001, 0.01, "lin_0.01"] == rows["algorithm.learning_rate"]["values"]
    assert 3 == rows["algorithm.learning_rate"]["total"]
    assert not rows["score"]["is_key"]
    for name in rows:
        assert 0 == rlexp(tmp_path, "ls", "grid", "--sort", name, "--columns", name).code
    text = rlexp(tmp_path, "ls", "grid", "--list-columns").out
    assert "0.0001, 0.01, lin_0.01" in text


def test_every_name_of_experiments_is_accepted(
    grid: Stored, other: Stored, tmp_path: Path
) -> None:
    """Each listed name can be asked for in listings of experiments and of configurations."""
    for words in ((), ("--group",)):
        document = rlexp(tmp_path, "ls", *words, "--list-columns", "--json").content
        names = ",".join(row["name"] for row in document["rows"])
        assert 0 == rlexp(tmp_path, "ls", *words, "--columns", names).code


def test_a_damaged_run_does_not_hide_the_others(grid: Stored, tmp_path: Path) -> None:
    """A run without a readable specification fulfils no condition on a key, and raises no error."""
    (grid.paths.folder / "odd-test-0-0000000000" / "attempts").mkdir(parents=True)
    assert 6 == len(listed(tmp_path, "grid", *where("algorithm=ppo")))
    assert 7 == len(listed(tmp_path, "grid", "--sort", "algorithm.learning_rate"))
