"""Settings of executor=ray; wrong ones are refused in one line before anything is started."""

import json
import sys
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from rlexp.config.compose import compose
from rlexp.config.validate import build
from rlexp.errors import ConfigError, ExecutorError
from rlexp.executors import Site
from rlexp.executors.ray import Ray
from rlexp.store.provenance import usable_cores


@cache
def packaged_settings() -> str:
    """The values of conf/executor/ray.yaml."""
    return json.dumps(compose(["executor=ray"], Path("nowhere"))[0].plain["executor"])


def ray(**changes: Any) -> Ray:
    """The executor of conf/executor/ray.yaml; keyword arguments change its settings."""
    executor = build({**json.loads(packaged_settings()), **changes}, "executor", ())
    assert isinstance(executor, Ray)
    return executor


def site(folder: Path) -> Site:
    """A site with an empty experiment."""
    return Site(
        experiment=folder / "runs" / "x",
        jobs=folder / "runs" / "x" / "jobs",
        folder=folder,
        worker=("rlexp", "worker", "x"),
        variables={},
        threads=2,
    )


def test_yaml_and_class_have_the_same_fields_in_the_same_order() -> None:
    """The settings in the YAML file are the fields of the class, in the same order."""
    names = [key for key in json.loads(packaged_settings()) if key != "_target_"]
    assert [f.name for f in fields(Ray)] == names


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("jobs", 0), ("jobs", "many"), ("runs_per_job", 0), ("cpus", 0), ("gpus", -1)),
        *(("memory", 0), ("resources", {"a100": 0}), ("grace", 0), ("shared", "maybe")),
        *(("return_every", 0), ("address", 7)),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(name: str, value: object) -> None:
    """A setting out of its range is refused by its name."""
    with pytest.raises(ConfigError, match=name):
        ray(**{name: value})


def test_tasks_out_at_a_time() -> None:
    """A local cluster gets tasks for its cores; elsewhere `jobs` decides, or the default of 16."""
    cores = usable_cores()
    assert max(1, cores // 2) == ray().workers_for(2)
    assert 2 * cores == ray(cpus=0.5).workers_for(1)
    assert 16 == ray(address="auto").workers_for(1)
    assert 12 == ray(jobs=4, runs_per_job=3).workers_for(1)


def test_without_ray_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Ray, one line says what to install, and nothing is written."""
    monkeypatch.setitem(sys.modules, "ray", None)
    with (
        pytest.raises(ExecutorError, match=r"^Ray is not installed: pip install 'rlexp\[ray\]'$"),
        ray().dispatch(site(tmp_path)),
    ):
        pass
    assert [] == list(tmp_path.iterdir())


def test_no_task_is_detached(tmp_path: Path) -> None:
    """Ray cannot detach runs, and the error names tmux, slurm and pull."""
    with pytest.raises(
        ExecutorError, match=r"inside tmux, or use executor=slurm or executor=pull"
    ):
        ray().check_detached()
    assert 0 == ray().cancel(tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("gpus", 1, "asks for 1 GPU, of which this machine has 0"),
        ("cpus", 8, "asks for 8 CPU, of which this machine has 4"),
        ("resources", {"a100": 2}, "asks for 2 a100, of which this machine has 0"),
        ("memory", 2000, "asks for 2000 memory, of which this machine has 1000"),
    ],
)
def test_a_machine_that_lacks_what_is_asked_for(name: str, value: object, message: str) -> None:
    """A run that no node can hold is refused, unless the cluster may get further nodes."""
    nodes = [{"CPU": 4.0, "memory": 1000.0}]
    with pytest.raises(ExecutorError, match=message):
        ray(**{name: value})._check(nodes, 1)
    ray(address="auto", **{name: value})._check(nodes, 1)
    ray()._check(nodes, 1)


def test_ray_is_asked_for_what_a_run_needs(tmp_path: Path) -> None:
    """Threads become cores unless `cpus` is set, and Ray itself retries nothing."""
    arguments = ("executor.gpus=0.5", "+executor.resources.a100=1", "executor.memory=5")
    composed = compose(["executor=ray", *arguments], tmp_path)[0].plain["executor"]
    executor = build(composed, "executor", ())
    assert {
        "num_cpus": 3,
        "num_gpus": 0.5,
        "memory": 5,
        "resources": {"a100": 1.0},
        "max_retries": 0,
        "scheduling_strategy": "SPREAD",
    } == executor._options(3)
    assert 0.5 == ray(cpus=0.5)._options(3)["num_cpus"]
