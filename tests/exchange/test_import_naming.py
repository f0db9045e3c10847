"""Labels, tasks and seeds of imported runs come from paths and parameters, and runs are chosen."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from import_sources import RECORDED, given, settled, write_evaluations, write_monitors

from rlexp.conditions import read_conditions
from rlexp.errors import ConfigError, ProtocolError
from rlexp.exchange.importers.imported_study import ENVIRONMENT, ImportOptions, MalformedError
from rlexp.exchange.importers.mlflow_store import read_mlflow_store
from rlexp.exchange.importers.name_patterns import parse_path_pattern
from rlexp.exchange.importers.sb3_evaluations import read_evaluations
from rlexp.exchange.importers.sb3_monitor import read_monitors
from rlexp.exchange.importers.tensorboard import hyperparameters, read_tensorboard


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store of MLflow with four runs of ppo, two of which have another learning rate."""
    path = tmp_path / "mlflow.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript((RECORDED / "mlflow.sql").read_text())
        connection.execute("UPDATE params SET value = 'ppo' WHERE key = 'algo'")
        connection.execute(
            "UPDATE params SET value = CASE WHEN run_uuid IN (SELECT run_uuid FROM runs WHERE name "
            "LIKE 'ppo%') THEN '0.001' ELSE '0.002' END WHERE key = 'learning_rate'"
        )
        connection.execute("DELETE FROM runs WHERE name IN ('ppo-2', 'ppo-3')")
    return path


@pytest.mark.parametrize(
    ("pattern", "path", "values"),
    [
        ("{label}/seed_{seed}", "logs/ppo/seed_3", {"label": "ppo", "seed": "3"}),
        ("{label}/seed_{seed}", "logs/ppo/seed_3/eval", {"label": "ppo", "seed": "3"}),
        ("{task}/{label}_{seed}", "tb/CartPole-v1/PPO_LSTM_2", {"label": "PPO_LSTM", "seed": "2"}),
        ("{label}/*/{seed}", "a2c/run-x/7", {"label": "a2c", "seed": "7"}),
        ("{label}_{seed}.csv", "scores/sac_4.csv", {"label": "sac", "seed": "4"}),
        ("lr={lr}", "x/lr=0.001", {"lr": "0.001"}),
        ("{label}/seed_{seed}", "logs/ppo/trial_3", None),
        ("{label}/seed_{seed}", "seed_3", None),
    ],
)
def test_patterns(pattern: str, path: str, values: dict[str, str] | None) -> None:
    """A pattern is laid along neighbouring parts of a path, at the last place that fits."""
    found = parse_path_pattern(pattern).match(path)
    assert values == (found if found is None or values is None else {k: found[k] for k in values})


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("seed_3", "has no placeholder"),
        ("{label", "single brace"),
        ("{label}/{label}", "twice"),
        ("{label}{seed}", "put a text between them"),
    ],
)
def test_patterns_that_cannot_be_read(pattern: str, words: str) -> None:
    """A pattern without a clear meaning is refused with an example."""
    with pytest.raises(ConfigError, match=words) as caught:
        parse_path_pattern(pattern)
    assert "--path '{label}/seed_{seed}'" in str(caught.value) or words == "twice"


@pytest.mark.parametrize(
    ("condition", "value", "holds"),
    [
        ("lr=0.001", "1e-3", True),
        ("lr=0.001", "0.01", False),
        ("lr!=0.001", "1e-3", False),
        ("algo=ppo", "ppo", True),
        ("algo~PP", "ppo_lstm", True),
        ("seed<3", "2", True),
        ("seed<3", "3", False),
        ("seed<=3", "3.0", True),
        ("seed>3", "many", False),
        ("seed>=3", "3", True),
        ("algo=ppo*", "ppo_lstm", True),
        ("learning rate=0.1", "1e-1", True),
        ("lr~e-3", "1e-3", True),
        ("lr!=0.001", "0.002", True),
    ],
)
def test_conditions(condition: str, value: str, holds: bool) -> None:
    """Conditions compare numbers as numbers and everything else as text."""
    assert holds is read_conditions([condition])[0].holds_for_text(value)


@pytest.mark.parametrize("text", ["lr", "=3", "lr<many", ""])
def test_conditions_that_cannot_be_read(text: str) -> None:
    """A text that is no condition is refused."""
    with pytest.raises(ConfigError, match="--where"):
        read_conditions([text])


def test_folders_of_labels_and_seeds(tmp_path: Path) -> None:
    """`logs/{ppo,a2c}/seed_{0,1}` is imported at once, with the labels and seeds of the paths."""
    for label in ("ppo", "a2c"):
        for seed in range(2):
            write_monitors(tmp_path / "logs" / label / f"seed_{seed}", [5, 5])
    options = ImportOptions(task="Toy-v0", path=parse_path_pattern("{label}/seed_{seed}"))
    runs = read_monitors(given(tmp_path / "logs"), options).runs
    assert {("ppo", 0), ("ppo", 1), ("a2c", 0), ("a2c", 1)} == {(r.label, r.seed) for r in runs}


def test_a_path_that_does_not_fit(tmp_path: Path) -> None:
    """A run whose path does not fit the pattern is refused, with its path."""
    path = write_evaluations(tmp_path / "ppo" / "first", [1], [[1.0]])
    options = ImportOptions(task="Toy-v0", path=parse_path_pattern("{label}/seed_{seed}"))
    with pytest.raises(MalformedError, match=r"fits no part of its path 'ppo/first'"):
        read_evaluations(given(path.parent.parent), options)


def test_two_learning_rates_and_three_seeds(store: Path) -> None:
    """Runs of one algorithm that differ in a parameter are imported at once under two labels."""
    unnamed = ImportOptions(unit=ENVIRONMENT)
    with pytest.raises(ProtocolError, match="differ in learning_rate, so give --label-from learn"):
        settled(*read_mlflow_store(given(store), unnamed).runs, kind="mlflow")
    options = ImportOptions(unit=ENVIRONMENT, label_from=("learning_rate",))
    study = read_mlflow_store(given(store), options)
    assert {
        ("ppo learning_rate=0.001", 0),
        ("ppo learning_rate=0.001", 1),
        ("ppo learning_rate=0.002", 0),
        ("ppo learning_rate=0.002", 1),
    } == {(run.label, run.seed) for run in study.runs}
    plan = settled(*study.runs, kind="mlflow")
    assert [{"learning_rate": "0.001"}, {"learning_rate": "0.002"}] == [
        configuration.algorithm["settings"] for configuration in plan.experiment.configurations
    ]


def test_a_label_from_its_own_parameter(store: Path) -> None:
    """A parameter that names the label already is not repeated in it."""
    options = ImportOptions(unit=ENVIRONMENT, label_from=("algo", "learning_rate"))
    labels = {run.label for run in read_mlflow_store(given(store), options).runs}
    assert {"ppo learning_rate=0.001", "ppo learning_rate=0.002"} == labels


def test_tasks_and_seeds_from_parameters(store: Path) -> None:
    """Parameters that are named by the user become the task and the seed."""
    options = ImportOptions(
        unit=ENVIRONMENT, label_from=("learning_rate",), task_from="algo", seed_from="params.seed"
    )
    runs = read_mlflow_store(given(store), options).runs
    assert {("ppo", 0), ("ppo", 1)} == {(run.task, run.seed) for run in runs}


def test_a_missing_parameter(store: Path) -> None:
    """A parameter that a run lacks is refused, and a similar one is suggested."""
    options = ImportOptions(unit=ENVIRONMENT, label_from=("learning_rat",))
    with pytest.raises(MalformedError, match="did you mean 'learning_rate'"):
        read_mlflow_store(given(store), options)


@pytest.mark.parametrize("key", ["learning_rate", "params.learning_rate"])
def test_chosen_runs(store: Path, key: str) -> None:
    """Conditions leave runs out, and the import says how many."""
    options = ImportOptions(unit=ENVIRONMENT, where=tuple(read_conditions([f"{key}=2e-3"])))
    study = read_mlflow_store(given(store), options)
    assert {"a2c-0", "a2c-1"} == {run.name for run in study.runs}
    assert f"2 runs because of --where {key}=2e-3" in study.left_out


def test_conditions_that_leave_nothing(store: Path) -> None:
    """If no run satisfies the conditions, the error lists the values or the parameters."""
    for text, words in (
        ("learning_rate=5", r"no run satisfies it \(learning_rate is 0\.001, 0\.002\)"),
        ("learning_rat=5", "no run has 'learning_rat'; did you mean 'learning_rate'"),
    ):
        options = ImportOptions(unit=ENVIRONMENT, where=tuple(read_conditions([text])))
        with pytest.raises(ConfigError, match=words):
            read_mlflow_store(given(store), options)


def test_hyperparameters_of_event_files(tmp_path: Path) -> None:
    """The table of hyperparameters that CleanRL writes names labels and chooses runs."""
    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    for rate in (0.1, 0.2):
        writer = tensorboard.SummaryWriter(str(tmp_path / "tb" / f"PPO_{rate}"))
        table = f"|param|value|\n|-|-|\n|learning_rate|{rate}|\n|text|a b|"
        writer.add_text("hyperparameters", table)
        writer.add_scalar("rollout/ep_rew_mean", 1.0, 100)
        writer.close()
    options = ImportOptions(task="t", unit=ENVIRONMENT, label="PPO", label_from=("learning_rate",))
    runs = read_tensorboard(given(tmp_path / "tb"), options).runs
    assert ["PPO learning_rate=0.1", "PPO learning_rate=0.2"] == [run.label for run in runs]
    assert {"text": "a b", "learning_rate": "0.1"} == runs[0].parameters


def test_texts_that_are_no_table() -> None:
    """Without a table there are no hyperparameters."""
    assert {} == hyperparameters({"hyperparameters/text_summary": "none"})
    assert {} == hyperparameters({})
