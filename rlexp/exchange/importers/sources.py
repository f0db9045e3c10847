"""Files of a source: read whole, with their sums, by whatever the caller trusts to open them."""

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from rlexp.exchange.importers.study import malformed_error

LARGEST = 1 << 28
"""Bytes of a file that is read."""
_DIGITS = re.compile(r"([0-9]+)")


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """The content of a file, and its sha256."""

    name: str
    content: bytes
    sha256: str

    @property
    def sum(self) -> tuple[str, str]:
        """Name and sum."""
        return self.name, self.sha256

    def text(self) -> str:
        """The content as text.

        Raises:
            MalformedError: It is not UTF-8.
        """
        try:
            return self.content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise malformed_error(
                self.name, f"byte {error.start}", "it is not UTF-8: save it so"
            ) from error


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A regular file that the user gave, or that lies in a folder or archive that was given.

    Attributes:
        name: Its path from what was given, that included, with slashes.
        path: Where it can be read now.
        read: Reads a regular file whole, and follows no link.
    """

    name: str
    path: Path
    read: Callable[[Path], bytes]

    @property
    def folder(self) -> str:
        """The name of the folder that it lies in; nothing where it was given itself."""
        return str(PurePosixPath(self.name).parent) if "/" in self.name else ""

    @property
    def last(self) -> str:
        """The last part of its name."""
        return PurePosixPath(self.name).name

    def load(self, most: int = LARGEST) -> LoadedFile:
        """Read it.

        Raises:
            MalformedError: It is too large, or cannot be read.
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
        """Its first bytes; nothing where it cannot be read."""
        try:
            with self.path.open("rb") as file:
                return file.read(count)
        except OSError:
            return b""


def natural_sort_key(name: str) -> list[tuple[bool, int, str]]:
    """What names are sorted by: numbers in them by their value."""
    pieces = enumerate(_DIGITS.split(name))
    # Every second piece is what the pattern found.
    return [(at % 2 == 1, int(p) if at % 2 and len(p) < 19 else 0, p) for at, p in pieces]


def by_folder(files: Iterable[SourceFile]) -> dict[str, list[SourceFile]]:
    """Files by the folder that they lie in; one that was given itself stands for itself."""
    found: dict[str, list[SourceFile]] = {}
    for file in sorted(files, key=lambda f: natural_sort_key(f.name)):
        found.setdefault(file.folder or file.name, []).append(file)
    return found


def unused_files(files: Sequence[SourceFile], used: Iterable[SourceFile]) -> list[str]:
    """The names of files that were not used."""
    known = {file.name for file in used}
    return [file.name for file in files if file.name not in known]
