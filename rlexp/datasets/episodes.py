"""Reads the episodes of a Minari dataset, and compares its spaces with those of an environment."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box, Dict, Discrete

from rlexp.datasets.minari_files import KEY, MinariFiles
from rlexp.datasets.recorded import Episode
from rlexp.errors import ConfigError


@dataclass(frozen=True, slots=True)
class RecordedSpaces:
    """The spaces with which episodes were recorded."""

    observation: Space[Any]
    action: Space[Any]


def read_spaces(files: MinariFiles) -> RecordedSpaces:
    """The spaces of a dataset.

    Raises:
        ConfigError: The metadata is damaged.
    """
    storage = _opened(files)
    return RecordedSpaces(storage.observation_space, storage.action_space)


def read_episodes(files: MinariFiles) -> Iterator[Episode]:
    """Yield every episode of a dataset, in its order.

    Raises:
        ConfigError: A file is damaged, or an episode is incomplete.
    """
    storage, steps = _opened(files), 0
    try:
        for number, content in enumerate(storage.get_episodes(range(storage.total_episodes))):
            episode = _episode(content)
            _check(episode, number)
            steps += len(episode.rewards)
            yield episode
    except ConfigError as error:
        raise _damaged(files, str(error)) from error
    # HDF5 raises errors of many kinds, and Minari asserts what it expects.
    except Exception as error:
        raise _damaged(files, _line(error)) from error
    if steps != storage.total_steps:
        raise _damaged(
            files, f"it has {steps:,} steps, and its metadata says {storage.total_steps:,}"
        )


def _opened(files: MinariFiles) -> Any:
    from minari.dataset.minari_storage import MinariStorage

    try:
        return MinariStorage.read(files.folder)
    except Exception as error:
        raise _damaged(files, _line(error)) from error


def _episode(content: Mapping[str, Any]) -> Episode:
    return Episode(
        observations=content["observations"],
        actions=np.asarray(content["actions"]),
        rewards=np.asarray(content["rewards"], dtype=np.float64),
        terminations=np.asarray(content["terminations"], dtype=bool),
        truncations=np.asarray(content["truncations"], dtype=bool),
    )


def _check(episode: Episode, number: int) -> None:
    """Refuse an episode whose arrays do not belong together, or whose numbers are not finite."""
    steps = len(episode.rewards)
    lengths = {len(part) for part in (episode.actions, episode.terminations, episode.truncations)}
    if lengths != {steps}:
        raise ConfigError(
            f"episode {number} has {steps} rewards and another number of actions or ends"
        )
    observed = episode.observations
    entries = observed.values() if isinstance(observed, Mapping) else (observed,)
    # Minari gives nested spaces as mappings and tuples, which no replay buffer holds.
    arrays = [entry for entry in entries if not isinstance(entry, Mapping | tuple)]
    for entry in arrays:
        if len(entry) != steps + 1:
            raise ConfigError(f"episode {number} has {steps} steps and {len(entry)} observations")
    if not all(map(_is_finite, (*arrays, episode.actions, episode.rewards))):
        raise ConfigError(f"episode {number} has a number that is not finite")


def _is_finite(entry: Any) -> bool:
    """Whether an array holds no NaN and no infinity; texts hold none."""
    array = np.asarray(entry)
    return array.dtype.kind not in "fc" or bool(np.isfinite(array).all())


def check_against(recorded: RecordedSpaces, observation: Space[Any], action: Space[Any]) -> None:
    """Refuse a dataset that was recorded with other spaces than those of an environment.

    Raises:
        ConfigError: Names both spaces.
    """
    pairs = (
        ("observations", recorded.observation, observation, False),
        ("actions", recorded.action, action, True),
    )
    for name, there, here, bounded in pairs:
        if not _alike(there, here, bounded=bounded):
            raise ConfigError(f"its {name} are {_shown(there)}, and those here are {_shown(here)}")


def _alike(there: Space[Any], here: Space[Any], *, bounded: bool) -> bool:
    """Whether elements of one space are elements of the other one; floats of all sizes are alike."""
    if isinstance(there, Dict) and isinstance(here, Dict):
        return there.spaces.keys() == here.spaces.keys() and all(
            _alike(there[key], here[key], bounded=bounded) for key in here.spaces
        )
    if isinstance(there, Box) and isinstance(here, Box):
        kinds = {np.dtype(space.dtype).kind for space in (there, here)}
        # Actions are scaled by their bounds; those of observations may be tightened by a wrapper.
        same_bounds = not bounded or (
            there.shape == here.shape
            and np.allclose(there.low, here.low)
            and np.allclose(there.high, here.high)
        )
        return there.shape == here.shape and len(kinds) == 1 and same_bounds
    if isinstance(there, Discrete) and isinstance(here, Discrete):
        return (int(there.n), int(there.start)) == (int(here.n), int(here.start))
    return bool(there == here)


def _shown(space: Space[Any]) -> str:
    return " ".join(str(space).split())


def _damaged(files: MinariFiles, reason: str) -> ConfigError:
    return ConfigError(
        f"{KEY}: the dataset in {files.folder} is damaged: {reason}; fetch or record it again",
        key=KEY,
    )


def _line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
