"""What the user gave, files, folders and archives, as files that importers read."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from stat import S_ISDIR, S_ISREG

from rlexp.errors import ConfigError
from rlexp.exchange.importers.archives import MOST_MEMBERS, is_archive, unpack
from rlexp.exchange.importers.sources import SourceFile, natural

READABLE = (".csv", ".npz", ".yml", ".yaml", ".json", ".db", ".sqlite", ".sqlite3")
"""Endings of files that an importer could read; names of event files have no one ending."""
DEEPEST = 20
"""Folders inside folders; what lies deeper is refused."""


def files_of(
    paths: Sequence[Path], read: Callable[[Path], bytes], temporary: Path
) -> list[SourceFile]:
    """Every regular file that was given, by name; no link inside a folder is followed.

    Args:
        paths: Files, folders and archives.
        read: Reads a regular file whole, and follows no link.
        temporary: An empty folder, into which archives are unpacked.

    Raises:
        ConfigError: One of the paths is not there, or holds too many files.
        MalformedError: An archive is refused.
    """
    found: list[SourceFile] = []
    for number, path in enumerate(paths):
        try:
            inside = list(_inside(path, paths, temporary / str(number)))
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
        found += [SourceFile(own, place, read) for own, place in inside]
        if len(found) > MOST_MEMBERS:
            raise ConfigError(f"{path} holds more than {MOST_MEMBERS:,} files: give a part of it")
    return sorted(found, key=lambda file: natural(file.name))


def _inside(path: Path, paths: Sequence[Path], unpacked: Path) -> Iterator[tuple[str, Path]]:
    """Names and places of the regular files at a path; those of an archive are unpacked."""
    if not path.exists():
        raise ConfigError(f"there is nothing at {path}")
    place, name = path.resolve(), _named(path, paths)
    if place.is_file() and is_archive(place):
        unpacked.mkdir()
        unpack(place, unpacked, is_readable)
        place = unpacked
    yield from _walk(place, name, 0)


def is_readable(name: str) -> bool:
    """Whether an importer could read a file of this name."""
    return name.lower().endswith(READABLE) or "tfevents" in name


def _named(path: Path, paths: Sequence[Path]) -> str:
    """What a path is called: its last part, with those before it as far as they tell paths apart."""
    parts = path.resolve().parts
    others = [p.resolve().parts for p in paths]
    count = 1
    while count < len(parts) and others.count(parts) < sum(
        o[-count:] == parts[-count:] for o in others
    ):
        count += 1
    return "/".join(parts[-count:]).lstrip("/") or "files"


def _walk(place: Path, name: str, depth: int) -> Iterator[tuple[str, Path]]:
    mode = place.lstat().st_mode
    if S_ISREG(mode):
        yield name, place
    elif S_ISDIR(mode):
        if depth == DEEPEST:
            raise ConfigError(
                f"{name} lies below {DEEPEST} folders, which is too deep: give a folder further in"
            )
        with os.scandir(place) as entries:
            names = sorted(entry.name for entry in entries)
        for inner in names:
            yield from _walk(place / inner, f"{name}/{inner}", depth + 1)
