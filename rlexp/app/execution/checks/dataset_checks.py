"""Checks that a dataset is there, is the one of the record, and fits the task, before any run starts."""

from collections.abc import Callable, Collection
from inspect import signature
from typing import Any, NoReturn

from rlexp.algorithms import BringsEnvironments, shown_name
from rlexp.algorithms.external import DATASET, uses_placeholder
from rlexp.app.workspace import Workspace
from rlexp.config.validate import build
from rlexp.environments.external_task import ExternalTask
from rlexp.errors import ConfigError, RlexpError
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.identity import canonical, short_name
from rlexp.protocol.seeds import Phase

SOURCE = "source"
"""The setting of a replay that names where its prior data comes from."""
Examine = Callable[[str, Callable[[], Any]], Any]
"""Calls a function in a process apart, with the subject of the call for messages."""


def check_dataset(
    configuration: Configuration, workspace: Workspace, checked: set[str], examine: Examine
) -> None:
    """Refuse a dataset that is missing, has changed, is damaged or was recorded with other spaces.

    Args:
        configuration: The configuration.
        workspace: The workspace, with the packages that may be imported.
        checked: What was checked for other configurations; this is added.
        examine: Calls a function in a process apart: a damaged file may crash it.

    Raises:
        ConfigError: Names the dataset, and what is wrong with it.
        RecordError: The content has changed since the run was asked for.
    """
    _check_source(configuration)
    spec_command = configuration.algorithm.get("command")
    if configuration.dataset is None:
        if isinstance(spec_command, str) and uses_placeholder(spec_command, DATASET):
            raise ConfigError(
                f"algorithm.command names {{{DATASET}}}, and there is no dataset: choose one with "
                "dataset=minari dataset.id=…",
                key="dataset",
            )
        return
    key = canonical([configuration.dataset, configuration.environment])
    if key in checked:
        return
    checked.add(key)
    dataset = build(configuration.dataset, "dataset", workspace.allowed)
    dataset.check_content()
    environment = build(
        {**configuration.environment, "reference": configuration.reference},
        "environment",
        workspace.allowed,
    )
    make = None if isinstance(environment, ExternalTask) else environment.make
    try:
        examine(f"the dataset {dataset.name}", lambda: dataset.check_spaces(make))
    except RlexpError as error:
        kind = short_name(configuration.dataset)
        raise ConfigError(
            f"dataset={kind}: {dataset.name} does not fit {configuration.task}: {error}; choose the "
            "environment that it was recorded in, or another dataset.id",
            key="dataset",
        ) from error


def refuse_test_seeds(dataset: Any, phase: Phase) -> None:
    """Refuse a dataset that policies of test seeds have recorded, for runs that serve a choice.

    Raises:
        ConfigError: Names the dataset.
    """
    if phase is not Phase.TEST and dataset is not None and dataset.of_test_seeds:
        _refuse(
            f"dataset.id: policies of test seeds have recorded {dataset.name}, which must not influence "
            f"runs of phase {phase}: record policies of phase {phase}, or use phase=test"
        )


def check_learner(
    configuration: Configuration, algorithm: Any, observation: Collection[str]
) -> None:
    """Refuse a dataset for an algorithm of the library that cannot start from it.

    Args:
        configuration: The configuration.
        algorithm: The algorithm plug-in.
        observation: Names of the observation space.

    Raises:
        ConfigError: Names what is in the way.
    """
    if (dataset := configuration.dataset) is None:
        return
    shown, name = f"dataset={short_name(dataset)}", shown_name(algorithm)
    if isinstance(algorithm, BringsEnvironments) or (
        "replay" not in signature(algorithm.build).parameters
    ):
        _refuse(
            f"{shown} needs an algorithm that learns from a replay buffer, and {name} has none: choose "
            "algorithm=sac, td3 or dqn, or dataset=none"
        )
    replay = None if configuration.replay is None else short_name(configuration.replay)
    mixes, steps = dataset["use"] == "mix", dataset["offline_steps"]
    if not mixes and steps == 0:
        _refuse(
            "dataset.offline_steps=0 and dataset.use=warm_start use nothing of the data: set offline_steps, "
            "or dataset.use=mix replay=prior_data replay.source=dataset"
        )
    if steps and replay not in {None, "n_step", "prior_data"}:
        _refuse(
            f"replay={replay} cannot draw from recorded data: choose replay=uniform or prior_data"
        )
    if getattr(algorithm, "optimize_memory_usage", False):
        _refuse(f"{shown} needs algorithm.optimize_memory_usage=false")
    vector = configuration.environment.get("vector", {})
    for key in ("normalise_observations", "normalise_rewards"):
        if vector.get(key):
            _refuse(
                f"{shown} has no statistics to normalise with: set environment.vector.{key}=false"
            )
    if vector.get("frame_stack", 1) != 1 or "Image" in observation:
        _refuse(f"{shown} gives single frames and no images to {name}: choose another environment")


def _check_source(configuration: Configuration) -> None:
    """Refuse `dataset.use=mix` without the replay that mixes, and this replay without the data."""
    replay, dataset = configuration.replay or {}, configuration.dataset or {}
    from_dataset = bool(replay) and replay.get(SOURCE) == DATASET
    mixes = dataset.get("use") == "mix"
    if from_dataset and not mixes:
        _refuse(
            "replay.source=dataset mixes the dataset of the run into minibatches: add dataset=minari "
            "dataset.id=… dataset.use=mix"
        )
    if mixes and not from_dataset and "command" not in configuration.algorithm:
        _refuse(
            "dataset.use=mix needs the replay that mixes: add replay=prior_data replay.source=dataset"
        )


def _refuse(problem: str) -> NoReturn:
    raise ConfigError(problem, key="dataset")
