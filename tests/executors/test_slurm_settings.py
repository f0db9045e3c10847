"""Options that the Slurm executor passes to sbatch, and settings that it refuses."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from rlexp.config.compose import compose
from rlexp.config.validate import build
from rlexp.errors import ConfigError
from rlexp.executors.slurm import Slurm
from rlexp.executors.slurm.options import minutes


@cache
def packaged_settings() -> str:
    """The values of conf/executor/slurm.yaml."""
    arguments = ["executor=slurm", "algorithm=ppo", "environment=cartpole"]
    return json.dumps(compose(arguments, Path.cwd())[0].plain["executor"])


def slurm(**changes: Any) -> Slurm:
    """The executor of conf/executor/slurm.yaml; keyword arguments change its settings."""
    built: Slurm = build({**json.loads(packaged_settings()), **changes}, "executor")
    return built


def test_what_is_unset_is_left_to_the_cluster() -> None:
    """By default a job asks for one node, the threads of a run, and a signal before its end."""
    assert slurm().sbatch_options(3) == (
        "--nodes=1",
        "--ntasks=1",
        "--cpus-per-task=3",
        "--signal=B:USR1@120",
    )


def test_every_setting_is_a_word() -> None:
    """Each setting becomes an option of sbatch, and the user's own options come last."""
    executor = slurm(
        partition="gpu",
        account="lab",
        qos="low",
        time="1-12:00:00",
        memory="4G",
        cpus=8,
        gpus="a100:1",
        constraint="ice&ssd",
        exclude="n[1-3]",
        signal_before=60,
        options=["--mail-type=END", "--exclusive"],
    )
    assert executor.sbatch_options(1) == (
        *("--partition=gpu", "--account=lab", "--qos=low", "--constraint=ice&ssd"),
        *("--exclude=n[1-3]", "--time=1-12:00:00", "--mem=4G", "--gres=gpu:a100:1"),
        *("--nodes=1", "--ntasks=1", "--cpus-per-task=8", "--signal=B:USR1@60"),
        *("--mail-type=END", "--exclusive"),
    )
    assert "--gres=gpu:2" in slurm(gpus=2).sbatch_options(1)


def test_as_many_runs_are_out_as_jobs_hold() -> None:
    """The number of runs at a time is `jobs` times `runs_per_job`."""
    assert slurm(jobs=4, runs_per_job=3).workers_for(2) == 12


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (90, 90),
        ("90", 90),
        ("90:30", 90.5),
        ("1:30:00", 90),
        ("1-12", 2160),
        ("1-12:30", 2190),
        ("1-12:30:30", 2190.5),
    ],
)
def test_time_limits_are_read_as_slurm_reads_them(limit: int | str, expected: float) -> None:
    """A time limit is minutes, minutes:seconds, hours:minutes:seconds, or days-hours:…."""
    assert minutes(limit) == expected


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"options": ["--array=0-9"]}, "rlexp sets"),
        ({"options": ["--arr=0-9"]}, "rlexp sets"),
        ({"options": ["--output=x.txt"]}, "rlexp sets"),
        ({"options": ["--parsable"]}, "rlexp sets"),
        ({"options": ["--wrap=ls"]}, "rlexp sets"),
        ({"options": ["--export=NONE"]}, "rlexp sets"),
        ({"options": ["--part=gpu"]}, "use executor.partition instead"),
        ({"options": ["--time=5"]}, "use executor.time instead"),
        ({"options": ["--gres=gpu:1"]}, "use executor.gpus instead"),
        ({"options": ["-p"]}, "write --name=value"),
        ({"options": ["--mail-type", "END"]}, "'END' is no option: write --name=value"),
        ({"partition": "a b"}, "must be one word"),
        ({"account": ""}, "must be one word"),
        ({"memory": "4GB"}, "use 4G or 500M"),
        ({"gpus": "many"}, "use 1 or a100:1"),
        ({"time": "soon"}, "is no time limit"),
        ({"time": 2}, "must be longer than executor.signal_before"),
        ({"time": 5}, "=120 (seconds) and 180 s, for Slurm may send the signal 60 s early, and"),
        ({"time": "3:00", "requeue": False}, "=120 (seconds) and 60 s, for Slurm may send"),
        ({"command_prefix": "srun 'x"}, "write it as in a shell, with closed quotes"),
        ({"signal_before": 0}, "signal_before"),
        ({"jobs": 0}, "jobs"),
        ({"polls": 3}, "did you mean"),
    ],
)
def test_what_would_break_a_job_is_refused(changes: dict[str, Any], message: str) -> None:
    """A setting that would break a job is refused in one line."""
    with pytest.raises(ConfigError) as error:
        slurm(**changes)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_options_that_only_look_alike_are_taken() -> None:
    """Options that only begin like an option of rlexp are accepted."""
    arguments = ("--exclusive", "--mem-per-gpu=4G", "--wait-all-nodes=1", "--nodelist=n1")
    assert slurm(options=arguments).options == arguments


def test_a_limit_with_time_to_train_is_taken() -> None:
    """A limit beyond the signal, its earliest moment and the wait of a requeue is accepted."""
    assert "--time=6" in slurm(time=6).sbatch_options(1)
    assert "--time=4" in slurm(time=4, requeue=False).sbatch_options(1)
