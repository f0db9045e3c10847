"""Checks that a replay fits its algorithm, before any run starts."""

import sys
from collections.abc import Collection, Iterable
from inspect import signature
from typing import Any, Literal

from rlexp.algorithms import BringsEnvironments, shown_name
from rlexp.app.workspace import Workspace
from rlexp.config.validate import build
from rlexp.errors import ConfigError
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.identity import TARGET, short_name
from rlexp.protocol.spec import RunSpec
from rlexp.replay.library_buffer import shown_replay

REMEDY = "choose algorithm=sac, td3 or dqn, or leave replay out"


def check_algorithm(
    replay: Any, algorithm: Any, environments: int, observation: Collection[str]
) -> None:
    """Refuse an algorithm that has no replay buffer of its library, or that the replay does not take.

    Args:
        replay: The replay plug-in.
        algorithm: The algorithm plug-in.
        environments: Environments of the vector.
        observation: Names of the observation space.

    Raises:
        ConfigError: Names what is in the way.
    """
    refuse_without_buffer(replay, algorithm)
    replay.check(algorithm, environments, dictionary="Dict" in observation)


def refuse_without_buffer(replay: Any, algorithm: Any) -> None:
    """Refuse an algorithm that has no replay buffer of its library.

    Raises:
        ConfigError: It has none.
    """
    name = shown_name(algorithm)
    if isinstance(algorithm, BringsEnvironments):
        _refuse(f"{shown_replay(replay)} is no part of compiled training, and {name} is compiled")
    if "replay" not in signature(algorithm.build).parameters:
        _refuse(
            f"{shown_replay(replay)} needs an algorithm that learns from a replay buffer, and "
            f"{name} has none"
        )


def bytes_of_replay(spec: RunSpec, which: Literal["rewritten_bytes", "added_bytes"]) -> int:
    """Bytes of each stored transition that the replay of a run declares; 0 for uniform replay."""
    if spec.replay is None:
        return 0
    module, _, name = str(spec.replay.get(TARGET)).rpartition(".")
    # The class was imported when the run was checked. Nothing is imported here that only a file
    # under runs/ names.
    return int(getattr(getattr(sys.modules.get(module), name, None), which, 0))


def length_keys(
    of_algorithm: Iterable[str], configuration: Configuration, workspace: Workspace
) -> tuple[str, ...]:
    """The keys of the settings of an algorithm and its replay whose effect depends on the length of training.

    Args:
        of_algorithm: The names of these settings of the algorithm.
        configuration: The configuration.
        workspace: The workspace, with the packages that may be imported.
    """
    keys = tuple(f"algorithm.{name}" for name in of_algorithm)
    if configuration.replay is None:
        return keys
    replay = build(configuration.replay, "replay", workspace.allowed)
    return (*keys, *(f"replay.{name}" for name in replay.length_settings()))


def refuse_replay_of_script(configuration: Configuration) -> None:
    """Refuse a replay for a training script, which stores experience in its own way.

    Raises:
        ConfigError: The configuration has one.
    """
    if configuration.replay is not None:
        name = short_name(configuration.replay)
        _refuse(f"replay={name} cannot change how a training script stores experience")


def _refuse(problem: str) -> None:
    raise ConfigError(f"{problem}: {REMEDY}", key="replay")
