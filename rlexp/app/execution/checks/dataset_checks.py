"""Checks that a dataset is there, is the one of the record, and fits the task, before any run starts."""

from collections.abc import Callable
from typing import Any

from rlexp.algorithms.external import DATASET, uses_placeholder
from rlexp.app.workspace import Workspace
from rlexp.config.validate import build
from rlexp.environments.external_task import ExternalTask
from rlexp.errors import ConfigError, RlexpError
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.identity import canonical, short_name

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
            f"dataset={kind}: {dataset.name} does not fit {configuration.task}: {error}",
            key="dataset",
        ) from error


def refuse_dataset_of_library(configuration: Configuration) -> None:
    """Refuse a dataset for an algorithm that cannot start from one.

    Raises:
        ConfigError: The configuration has a dataset.
    """
    if configuration.dataset is not None:
        name = short_name(configuration.algorithm)
        raise ConfigError(
            f"dataset={short_name(configuration.dataset)} cannot be used by algorithm={name}: choose "
            "algorithm=external or a recipe, or leave dataset out",
            key="dataset",
        )
