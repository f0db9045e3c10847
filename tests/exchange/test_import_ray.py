"""Results of Ray Tune and RLlib, and tables with columns of other names."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from import_sources import given, write_table

from rlexp.conditions import read_conditions
from rlexp.config.third_party_yaml import read_third_party_yaml
from rlexp.errors import ConfigError
from rlexp.exchange.importers.csv_table import parse_columns, read_csv
from rlexp.exchange.importers.imported_study import (
    ENVIRONMENT,
    ImportOptions,
    MalformedError,
    ReturnKind,
)
from rlexp.exchange.importers.kinds import kind_of
from rlexp.exchange.importers.name_patterns import parse_path_pattern
from rlexp.exchange.importers.ray_results import read_ray

OLD = ("episode_reward_mean", "timesteps_total", "training_iteration", "hist_stats")
NEW = ("env_runners/episode_return_mean", "num_env_steps_sampled_lifetime", "training_iteration")
EVALUATED = (*NEW[1:], "evaluation/env_runners/episode_return_mean")


def write_trial(
    folder: Path, columns: Sequence[str] = OLD, rate: float = 0.001, **parameters: Any
) -> Path:
    """Write a trial as Ray does: parameters, results as JSON lines, and a table of progress."""
    folder.mkdir(parents=True)
    settings = {"env": "CartPole-v1", "lr": rate, "model": {"fcnet": {"size": 64}}, "seed": None}
    (folder / "params.json").write_text(json.dumps({**settings, **parameters}))
    rows = []
    for number in range(1, 6):
        values = {
            "timesteps_total": 4000 * number,
            "num_env_steps_sampled_lifetime": 4000 * number,
            "training_iteration": number,
            "hist_stats": str(list(range(500))),
        }
        # RLlib has no mean before the first episode has ended.
        rows.append(
            [values.get(column, 10 * number if number > 1 else "nan") for column in columns]
        )
    with (folder / "progress.csv").open("w", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
    lines = [json.dumps({"training_iteration": number}) for number in range(3)]
    (folder / "result.json").write_text("\n".join(lines))
    return folder


@pytest.mark.parametrize(
    ("columns", "returns"),
    [
        (OLD, ReturnKind.TRAINING_MEANS),
        (NEW, ReturnKind.TRAINING_MEANS),
        (EVALUATED, ReturnKind.EVALUATION_MEANS),
    ],
)
def test_trials(tmp_path: Path, columns: Sequence[str], returns: ReturnKind) -> None:
    """The folder and the parameters name label and task, and evaluations are preferred."""
    write_trial(tmp_path / "study" / "PPO_CartPole-v1_3f2_00000_0_lr=0.001", columns)
    files = given(tmp_path / "study")
    assert "ray" == kind_of("auto", files, read_third_party_yaml).name
    study = read_ray(files, ImportOptions())
    [run] = study.runs
    assert ("PPO", "CartPole-v1", None, returns) == (run.label, run.task, run.seed, run.returns)
    assert [(8000, (20.0,)), (12000, (30.0,)), (16000, (40.0,)), (20000, (50.0,))] == [
        (point.step, point.returns) for point in run.points
    ]
    assert run.trouble is None
    assert "64" == run.parameters["model/fcnet/size"]
    assert "1 row of progress.csv before the end of the first episode" in study.left_out


def test_labels_and_choice_of_trials(tmp_path: Path) -> None:
    """Parameters of trials become labels and choose trials; a seed among them is kept."""
    for number, rate in enumerate((0.1, 0.2)):
        name = f"PPO_CartPole-v1_a_{number}_lr={rate}"
        write_trial(tmp_path / "s" / name, rate=rate, seed=number + 5)
    options = ImportOptions(label_from=("lr",))
    runs = read_ray(given(tmp_path / "s"), options).runs
    assert [("PPO lr=0.1", 5), ("PPO lr=0.2", 6)] == [(run.label, run.seed) for run in runs]
    chosen = ImportOptions(where=tuple(read_conditions(["lr>0.1"])))
    assert [6] == [run.seed for run in read_ray(given(tmp_path / "s"), chosen).runs]


def test_a_failing_trial_keeps_its_failure(tmp_path: Path) -> None:
    """A return that is NaN after the first number fails the run."""
    folder = write_trial(tmp_path / "PPO_CartPole-v1_a_0")
    table = folder / "progress.csv"
    table.write_text(table.read_text().replace("30,", "nan,"))
    [run] = read_ray(given(folder), ImportOptions(label="PPO")).runs
    assert run.trouble is not None
    assert (12000, "nan") == (run.trouble.step, run.trouble.failure)


def test_damaged_trials(tmp_path: Path) -> None:
    """Damaged parameters and missing columns are refused."""
    folder = write_trial(tmp_path / "PPO_CartPole-v1_a_0")
    (folder / "params.json").write_text("{")
    with pytest.raises(MalformedError, match=r"params\.json: it is not JSON"):
        read_ray(given(folder), ImportOptions())
    (folder / "params.json").write_text("[1]")
    with pytest.raises(MalformedError, match="not a mapping"):
        read_ray(given(folder), ImportOptions())
    (folder / "params.json").unlink()
    options = ImportOptions(label="PPO", task="CartPole-v1")
    assert 1 == len(read_ray(given(folder), options).runs)
    table = folder / "progress.csv"
    table.write_text(table.read_text().replace("episode_reward_mean", "score_of_mine"))
    with pytest.raises(MalformedError, match="--column return=COLUMN"):
        read_ray(given(folder), options)


def test_columns_of_any_table(tmp_path: Path) -> None:
    """Columns of other names are read; empty cells of a logger are rows without a value."""
    path = write_table(
        tmp_path / "ppo_seed4.csv",
        [(100, 1.5, "x" * 2000, 0.1), (200, "", "", 0.1), (300, 2.5, "", 0.1)],
        "time/total_timesteps,rollout/ep_rew_mean,note,LR",
    )
    options = ImportOptions(
        task="t",
        unit=ENVIRONMENT,
        path=parse_path_pattern("{label}_seed{seed}.csv"),
        label_from=("LR",),
        columns=parse_columns(["step=time/total_timesteps", "return=rollout/ep_rew_mean"]),
    )
    study = read_csv(given(path), options)
    [run] = study.runs
    assert ("ppo LR=0.1", 4, ReturnKind.TRAINING_MEANS) == (run.label, run.seed, run.returns)
    assert [(100, (1.5,)), (300, (2.5,))] == [(p.step, p.returns) for p in run.points]
    assert "ppo_seed4.csv, 1 row without a value in rollout/ep_rew_mean" in study.left_out


def test_rays_table_as_a_table(tmp_path: Path) -> None:
    """Ray's table can be read by its columns alone, without the folder of its trial."""
    folder = write_trial(tmp_path / "trial")
    options = ImportOptions(
        label="PPO",
        task="t",
        seed=0,
        unit=ENVIRONMENT,
        columns=parse_columns(["step=timesteps_total", "return=episode_reward_mean"]),
    )
    [run] = read_csv(given(folder / "progress.csv"), options).runs
    assert run.trouble is None
    assert 8000 == run.points[0].step


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["steps=a"], "did you mean 'step'"),
        (["step"], "write FIELD=COLUMN"),
        (["step=a", "step=b"], "given twice"),
    ],
)
def test_columns_that_cannot_be_read(texts: list[str], words: str) -> None:
    """An unknown or repeated field of `--column` is refused."""
    with pytest.raises(ConfigError, match=words):
        parse_columns(texts)


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    """A column that does not exist is refused before the unit of steps is asked for."""
    path = write_table(tmp_path / "a.csv", [(1, 2)], "timesteps_total,return")
    options = ImportOptions(label="a", task="t", seed=0, columns={"step": "timesteps_totl"})
    with pytest.raises(MalformedError, match="did you mean 'timesteps_total'"):
        read_csv(given(path), options)


def test_rows_are_chosen_and_labelled(tmp_path: Path) -> None:
    """Further columns of a table choose rows and become part of the label."""
    rows = [("ppo", "t", 0, 10, 1.0, 0.1), ("ppo", "t", 0, 10, 2.0, 0.2)]
    path = write_table(tmp_path / "a.csv", rows, "label,task,seed,step,return,lr")
    labelled = ImportOptions(unit=ENVIRONMENT, label_from=("lr",))
    runs = read_csv(given(path), labelled).runs
    assert [("ppo lr=0.1", (1.0,)), ("ppo lr=0.2", (2.0,))] == [
        (run.label, run.points[0].returns) for run in runs
    ]
    chosen = ImportOptions(unit=ENVIRONMENT, where=tuple(read_conditions(["lr=0.2"])))
    [run] = read_csv(given(path), chosen).runs
    assert (2.0,) == run.points[0].returns


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "run-1.wandb",
            r"W&B's folder cannot be imported: .*to_csv\(FILE\).*--column step=COLUMN",
        ),
        ("results.parquet", "rlexp import csv"),
        ("results.pkl", "executes code"),
        ("scores.xlsx", "save it as CSV"),
    ],
)
def test_unsupported_formats(tmp_path: Path, name: str, words: str) -> None:
    """A format that cannot be imported is named with what to do instead."""
    (tmp_path / name).write_bytes(b"content")
    for kind in ("auto", "mlflow"):
        with pytest.raises(ConfigError, match=words):
            kind_of(kind, given(tmp_path), read_third_party_yaml)


def test_the_file_store_of_mlflow(tmp_path: Path) -> None:
    """The file store of MLflow is named with the command that turns it into a database."""
    folder = tmp_path / "mlruns" / "1" / "abc"
    folder.mkdir(parents=True)
    (folder / "meta.yaml").write_text("artifact_uri: file:///x\nstatus: 3\n")
    with pytest.raises(ConfigError, match="mlflow migrate-filestore --source FOLDER"):
        kind_of("auto", given(tmp_path / "mlruns"), read_third_party_yaml)
