"""Files of a source: read whole and hashed, with a read function that the caller supplies."""

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from rlexp.exchange.importers.imported_study import malformed_error

LARGEST = 1 << 28
"""Bytes of the largest file that is read."""
Parse = Callable[[Path], Any]
"""Reads a yaml file into JSON values without creating objects."""
_DIGITS = re.compile(r"([0-9]+)")


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """The content of a file, and its sha256."""

    name: str
    content: bytes
    sha256: str

    @property
    def sum(self) -> tuple[str, str]:
        """The name and the sha256 of the file."""
        return self.name, self.sha256

    def text(self) -> str:
        """The content as text.

        Raises:
            MalformedError: The file is not UTF-8.
        """
        try:
            # Spreadsheets begin a UTF-8 file with a byte order mark.
            return self.content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise malformed_error(
                self.name, f"byte {error.start}", "it is not UTF-8: save it as UTF-8"
            ) from error


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A regular file: given by the user, or inside a given folder or archive.

    Attributes:
        name: Its path with slashes, which begins with the name of the given file or folder.
        path: Where the file can be read.
        read: Reads a regular file whole, and follows no link.
    """

    name: str
    path: Path
    read: Callable[[Path], bytes]

    @property
    def folder(self) -> str:
        """The name of its folder; empty if the file itself was given."""
        return str(PurePosixPath(self.name).parent) if "/" in self.name else ""

    @property
    def last(self) -> str:
        """The last part of the name."""
        return PurePosixPath(self.name).name

    def load(self, most: int = LARGEST) -> LoadedFile:
        """Read the file.

        Raises:
            MalformedError: The file is too large, or cannot be read.
        """
        try:
            size = self.path.lstat().st_size
            if size > most:
                raise malformed_error(self.name, "", f"it is larger than {most:,} bytes")
            content = self.read(self.path)
        except OSError as error:
            raise malformed_error(self.name, "", f"it cannot be read: {error.strerror}") from error
        return LoadedFile(self.name, content, hashlib.sha256(content).hexdigest())

    def begins(self, count: int = 512) -> bytes:
        """The first bytes of the file; empty if it cannot be read."""
        try:
            with self.path.open("rb") as file:
                return file.read(count)
        except OSError:
            return b""


def natural_sort_key(name: str) -> list[tuple[bool, int, str]]:
    """A sort key for names that orders the numbers in them by value."""
    pieces = enumerate(_DIGITS.split(name))
    # Every second piece is a number: `split` returns the matches of a group between the rest.
    return [(at % 2 == 1, int(p) if at % 2 and len(p) < 19 else 0, p) for at, p in pieces]


def by_folder(files: Iterable[SourceFile]) -> dict[str, list[SourceFile]]:
    """Files by folder; a file that was given itself is its own group."""
    folders: dict[str, list[SourceFile]] = {}
    for file in sorted(files, key=lambda f: natural_sort_key(f.name)):
        folders.setdefault(file.folder or file.name, []).append(file)
    return folders


def unused_files(files: Sequence[SourceFile], used: Iterable[SourceFile]) -> list[str]:
    """The names of files that were not used."""
    used_names = {file.name for file in used}
    return [file.name for file in files if file.name not in used_names]
