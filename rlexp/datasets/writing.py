"""Writes episodes as a Minari dataset, complete or not at all."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from typing import Any
from uuid import uuid4

from rlexp.datasets.minari_files import DATA, default_root
from rlexp.datasets.recorded import Episode
from rlexp.errors import ConfigError, RlexpError
from rlexp.installation_way import install_command


def new_folder(name: str, option: str) -> Path:
    """The folder of a dataset that does not exist yet, in the folder of Minari's local datasets.

    Args:
        name: The id of the dataset (`pendulum/expert-v0`).
        option: The option that gives the id, for messages.

    Raises:
        ConfigError: Minari is not installed, the id is malformed, or there is such a dataset.
    """
    try:
        import h5py  # noqa: F401
        from minari.dataset.minari_dataset import parse_dataset_id
    except ImportError as error:
        command = install_command("datasets")
        raise ConfigError.missing_package(
            f"{option}={name} needs minari and h5py, which are not installed", command
        ) from error
    try:
        parse_dataset_id(name)
    except (ValueError, TypeError) as error:
        raise ConfigError(
            f"{name!r} is no id of a dataset: write NAME-v0 or GROUP/NAME-v0 (letters, digits, - and _; "
            "GROUP has at least two characters)",
            key=option,
        ) from error
    folder = default_root().absolute() / name
    if folder.exists():
        raise ConfigError(
            f"there is a dataset {name} in {default_root()}: choose another name, such as "
            f"{name.rpartition('-v')[0]}-v{int(name.rpartition('-v')[2]) + 1}",
            key=option,
        )
    return folder


def write_dataset(
    folder: Path,
    name: str,
    episodes: Iterable[Episode],
    environment: Any,
    metadata: Mapping[str, Any],
) -> None:
    """Write a dataset.

    Args:
        folder: From `new_folder`.
        name: The id of the dataset.
        episodes: The episodes; they may be played while they are written.
        environment: An environment with the spaces of the episodes.
        metadata: Further entries of the metadata, as JSON values.

    Raises:
        ConfigError: The folder cannot be written, or Minari cannot store the spaces.
    """
    import minari
    from minari.data_collector import EpisodeBuffer
    from minari.dataset.minari_storage import MinariStorage

    _check_storable(environment)
    temporary = folder.with_name(f".{uuid4().hex[:8]}.{folder.name}")
    try:
        (temporary / DATA).mkdir(parents=True)
        storage = MinariStorage.new(
            temporary / DATA,
            observation_space=environment.observation_space,
            action_space=environment.action_space,
            env_spec=environment.spec,
            # JPEG would change the pixels that the policy saw.
            jpeg_encoding=False,
        )
        storage.update_metadata(
            {"dataset_id": name, "minari_version": minari.__version__, **metadata}
        )
        storage.update_episodes(
            EpisodeBuffer(
                observations=each.observations,
                actions=each.actions,
                rewards=each.rewards.tolist(),
                terminations=each.terminations.tolist(),
                truncations=each.truncations.tolist(),
            )
            for each in episodes
        )
        temporary.rename(folder)
    except RlexpError:
        raise
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ConfigError(f"{folder} cannot be written: {reason}") from error
    finally:
        with suppress(OSError):
            rmtree(temporary)
        _remove_empty(folder.parent)


def _remove_empty(group: Path) -> None:
    """Remove the folders of a group that hold no dataset."""
    for folder in (group, *group.parents):
        if folder == default_root().absolute():
            return
        try:
            folder.rmdir()
        except OSError:  # It holds something.
            return


def _check_storable(environment: Any) -> None:
    """Refuse spaces that Minari cannot describe in the metadata.

    Raises:
        ConfigError: Names the space.
    """
    from minari.serialization import serialize_space

    spaces = {"observations": environment.observation_space, "actions": environment.action_space}
    for name, space in spaces.items():
        try:
            serialize_space(space)
        except NotImplementedError as error:
            kind = type(space).__name__
            raise ConfigError(
                f"the {name} of the task have the space {kind}, which Minari cannot store"
            ) from error
