"""What an export has made, and how it reaches the disk: whole, or not at all."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError
from rlexp.store.files import open_file, publish_with, sync

Content: TypeAlias = bytes | Callable[[Path], object]
"""What a file holds, or what writes it to the path that it is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What an export has made.

    Attributes:
        files: By their names: beside the output where that is one file, else in it.
        folder: Whether the output is a folder.
        numbers: What a program is told of it.
        told: What people are told of it, a line each.
        following: The next command, if there is one.
    """

    files: Mapping[str, Content]
    folder: bool
    numbers: Mapping[str, Any] = field(default_factory=dict)
    told: Sequence[str] = ()
    following: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """Where an export goes; what is there already is replaced where `force` says so."""

    path: Path
    force: bool

    @classmethod
    def of(cls, word: str | None, place: Workspace, *, force: bool) -> "Output":
        """The output that a word names.

        Raises:
            ConfigError: There is no word, or it leads to the records or through a link.
        """
        if not word:
            raise ConfigError("where is it to go? Name a file or a new folder with --output PATH")
        path = place.folder / word
        if "\0" in word or path.name in {"", ".."}:
            raise ConfigError(f"--output={word!r} is no name of a file or folder")
        try:
            is_link = path.is_symlink()
        except OSError as error:
            raise ConfigError(f"--output={word!r} cannot be written: {error.strerror}") from error
        if is_link:
            raise ConfigError(f"{word} is a link, through which nothing is written: name another")
        records = place.layout.root.resolve()
        if path.resolve().is_relative_to(records) or records.is_relative_to(path.resolve()):
            raise ConfigError(
                f"--output={word} would lie among the records: name a path outside {records}"
            )
        return cls(path, force)

    @property
    def suffix(self) -> str:
        """The ending of its name, in small letters (`.csv`)."""
        return self.path.suffix.lower()

    def check_free(self) -> None:
        """Refuse to replace what is there without `force`.

        Raises:
            ConfigError: Something is there.
        """
        if self.path.exists() and not self.force:
            raise ConfigError(
                f"{self.path} exists: name another --output, or replace it with --force"
            )

    def write(self, made: Made) -> list[Path]:
        """Write everything; returns the files.

        Raises:
            ConfigError: Something else is there, or it cannot be written; says why.
        """
        try:
            return self._write_folder(made) if made.folder else self._write_files(made)
        except OSError as error:
            reason = error.strerror or str(error)
            raise ConfigError(
                f"{self.path} cannot be written: {reason}; name another --output"
            ) from error

    def _write_files(self, made: Made) -> list[Path]:
        paths = {self.path.with_name(name): content for name, content in made.files.items()}
        for path in paths:
            if path.is_symlink() or path.is_dir() or (path.exists() and not self.force):
                raise ConfigError(
                    f"{path} exists: name another --output"
                    + (
                        ""
                        if path.is_symlink() or path.is_dir()
                        else ", or replace it with --force"
                    )
                )
        for path, content in paths.items():
            publish_with(path, _writer(content))
        return list(paths)

    def _write_folder(self, made: Made) -> list[Path]:
        self._check_replaceable(made)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_name(f".{uuid4().hex[:8]}.{self.path.name}")
        try:
            for name, content in made.files.items():
                file = temporary / name
                file.parent.mkdir(parents=True, exist_ok=True)
                _writer(content)(file)
                sync(file)
            self._put_in_place(temporary)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        return [self.path / name for name in made.files]

    def _put_in_place(self, temporary: Path) -> None:
        old = self.path.with_name(f".{uuid4().hex[:8]}.old.{self.path.name}")
        if self.path.exists():
            self.path.rename(old)
        try:
            temporary.rename(self.path)
        except BaseException:
            with suppress(OSError):
                old.rename(self.path)
            raise
        shutil.rmtree(old, ignore_errors=True)
        with suppress(OSError):
            sync(self.path.parent)

    def _check_replaceable(self, made: Made) -> None:
        """Whatever is in a folder that is replaced must be written again: nothing else is lost."""
        self.check_free()
        if not self.path.exists():
            return
        if not self.path.is_dir():
            raise ConfigError(
                f"{self.path} is no folder, and a folder is to be written: name another"
            )
        foreign = sorted(set(_files_in(self.path)) - set(made.files))
        if foreign:
            raise ConfigError(
                f"{self.path} holds {foreign[0]!r}, which this export would not write again: "
                "remove it, or name another --output",
            )


def copied(source: Path) -> Content:
    """A copy of a regular file, made when it is written."""

    def copy(target: Path) -> None:
        with open_file(source) as content, target.open("wb") as file:
            shutil.copyfileobj(content, file)

    return copy


def _writer(content: Content) -> Callable[[Path], object]:
    return (lambda path: path.write_bytes(content)) if isinstance(content, bytes) else content


def _files_in(folder: Path) -> Iterator[str]:
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_dir():
            yield path.relative_to(folder).as_posix()
