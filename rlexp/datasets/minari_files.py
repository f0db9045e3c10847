"""Where the files of a Minari dataset are, and what its metadata says; needs no package of Minari."""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from math import isfinite
from pathlib import Path
from typing import Any

from rlexp.errors import ConfigError
from rlexp.protocol.identity import canonical
from rlexp.store.content_digest import content_digest

ROOT = "MINARI_DATASETS_PATH"
"""Variable with the folder of Minari's local datasets."""
METADATA = "metadata.json"
DATA = "data"
"""Folder of a dataset that holds its files."""
ENDING = ".hdf5"
DEFINING = ("data_format", "observation_space", "action_space", "total_episodes", "total_steps")
"""Entries of the metadata that say what the numbers in the files mean."""
MOST_SEEN = 2000
"""Most folders that are searched for datasets to name in a message."""
ORIGIN = "rlexp"
"""Entry of the metadata that says which runs, seeds and phases a dataset comes from."""
KEY = "dataset.id"


@dataclass(frozen=True, slots=True)
class MinariFiles:
    """The files of one dataset.

    Attributes:
        folder: The folder with the metadata and the data.
        metadata: The metadata, as it is on disk.
    """

    folder: Path
    metadata: Mapping[str, Any] = field(repr=False)

    @property
    def digest(self) -> str:
        """The sha256 of the data and of what defines its meaning, in hexadecimal.

        Authors, descriptions and reference scores are no part of it.

        Raises:
            ConfigError: A file cannot be read.
        """
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        try:
            content = content_digest([f for f in files if f.name != METADATA], self.folder)
        except OSError as error:
            raise ConfigError(f"{KEY}: {self.folder} cannot be read: {error}", key=KEY) from error
        meaning = canonical({name: self.metadata.get(name) for name in DEFINING})
        return sha256(f"{content}:{meaning}".encode()).hexdigest()

    @property
    def reference(self) -> dict[str, float]:
        """The reference scores that the dataset declares: `minimum` and `maximum`, where it has both.

        Minari calls the return of a random policy `ref_min_score`, and that of an expert `ref_max_score`.
        """
        ends = [self.metadata.get(f"ref_{end}_score") for end in ("min", "max")]
        numbers = [float(end) for end in ends if isinstance(end, int | float) and isfinite(end)]
        if len(numbers) < 2 or not numbers[0] < numbers[1]:
            return {}
        return dict(zip(("minimum", "maximum"), numbers, strict=True))


def default_root() -> Path:
    """The folder of Minari's local datasets."""
    given = os.environ.get(ROOT)
    return Path(given) if given else Path("~/.minari/datasets").expanduser()


def find_files(name: str, root: str | None) -> MinariFiles:
    """The files of a dataset.

    Args:
        name: The id of the dataset in the root folder, or the path of its folder or its file.
        root: The folder with datasets; None for Minari's.

    Raises:
        ConfigError: There is no such dataset, or its metadata cannot be read.
    """
    base = default_root() if root is None else Path(root).expanduser()
    for folder in _candidates(name, base):
        if (folder / METADATA).is_file():
            return MinariFiles(folder, _metadata(folder / METADATA, name))
    if is_path(name):
        raise ConfigError(
            f"{KEY}={name} is no dataset of Minari: there is no {METADATA} in it or in its folder "
            f"{DATA}; name the folder that 'rlexp evaluate RUN --record NAME' has written, or an id",
            key=KEY,
        )
    raise ConfigError.unknown(
        f"{KEY}={name} is no dataset in {base}",
        name,
        sorted(_ids(base)),
        key=KEY,
        after=f"; record it with 'rlexp evaluate RUN --record {name}', fetch it with 'minari download "
        f"{name}', or name another folder with dataset.root=…",
    )


def _candidates(name: str, base: Path) -> Iterator[Path]:
    """The folders that may hold the files, the likeliest first."""
    if not is_path(name):
        yield base / name / DATA
    path = Path(name).expanduser()
    if path.suffix == ENDING and path.is_file():
        yield path.parent
    yield path / DATA
    yield path


def is_path(name: str) -> bool:
    """Whether a name is the path of a dataset, and no id."""
    return name.startswith((".", "/", "~")) or name.endswith(ENDING)


def _metadata(path: Path, name: str) -> Mapping[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ConfigError(f"{KEY}={name}: {path} cannot be read: {reason}", key=KEY) from error
    if not isinstance(content, Mapping):
        raise ConfigError(f"{KEY}={name}: {path} holds no metadata of a dataset", key=KEY)
    return content


def _ids(base: Path) -> Iterator[str]:
    """The ids of the datasets in a folder; of a large folder, the first ones."""
    for seen, (folder, inside, files) in enumerate(os.walk(base)):
        if seen >= MOST_SEEN:
            return
        # A recording that was killed has left a hidden folder.
        inside[:] = [name for name in inside if not name.startswith(".")]
        if METADATA in files and Path(folder).name == DATA:
            yield Path(folder).parent.relative_to(base).as_posix()
            inside.clear()
