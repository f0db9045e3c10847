"""What an export has made, and how it reaches the disk: whole, or not at all."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, TypeAlias
from uuid import uuid4

from rlexp.app.results import NextCommand, Schema
from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError
from rlexp.store.files import open_file, publish_with, sync

Content: TypeAlias = bytes | Callable[[Path], object]
"""What a file holds, or what writes it to the path that it is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWithoutScore:
    """A run that was asked for and has no score.

    Attributes:
        run: Its name.
        state: Its state in words (`failed (nan)`).
    """

    run: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedFiles:
    """Records that were written for another tool.

    Attributes:
        format: `rliable`, `marl-eval`, `csv`, `parquet`, `script` or `huggingface`.
        output: The file or folder that was named.
        files: Every file that was written.
        phase: The phase of the runs.
        n: Runs with a score.
        planned: Runs that were asked for.
        without_score: Those of them that have no score.
        problems: What could not be read, each as a sentence.
        tasks: Columns of the arrays (`rliable`, `marl-eval`).
        seeds: Rows of the arrays, by label (`rliable`, `marl-eval`).
        left_out: Runs with a score whose seeds are not everywhere (`rliable`, `marl-eval`).
        unit: The unit of the scores, in words (`rliable`).
        rows: The number of rows of each table (`csv`, `parquet`).
        run: The run whose policy was written (`script`).
        mean_return: The mean return of its final evaluation (`script`).
        imports: Packages that scripts import and do not bring along (`script`, `huggingface`).
        result: The metric with its interval and n, as on the card (`huggingface`).
        remarks: What a reader must know of the runs, each as a sentence.
        next: The commands that make sense now.
    """

    schema: ClassVar[Schema] = Schema("exported-files")

    format: str
    output: Path
    files: tuple[Path, ...] = ()
    phase: str
    n: int
    planned: int
    without_score: tuple[RunWithoutScore, ...] = ()
    problems: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    seeds: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    unit: str | None = None
    rows: Mapping[str, int] = field(default_factory=dict)
    run: str | None = None
    mean_return: float | None = None
    imports: tuple[str, ...] = ()
    result: str | None = None
    remarks: tuple[str, ...] = ()
    next: tuple[NextCommand, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """An export before it is written.

    Attributes:
        contents: Contents by file names: beside the output where that is one file, else in it.
        folder: Whether the output is a folder.
        outcome: The result, whose `files` are known when they are written.
    """

    contents: Mapping[str, Content]
    folder: bool
    outcome: ExportedFiles


@dataclass(frozen=True, slots=True)
class Output:
    """Where an export goes; what is there already is replaced where `force` says so."""

    path: Path
    force: bool

    @classmethod
    def of(cls, word: str | None, workspace: Workspace, *, force: bool) -> "Output":
        """The output that a word names.

        Raises:
            ConfigError: There is no word, or it leads to the records or through a link.
        """
        if not word:
            raise ConfigError("where is it to go? Name a file or a new folder with --output PATH")
        path = workspace.folder / word
        if "\0" in word or path.name in {"", ".."}:
            raise ConfigError(f"--output={word!r} is no name of a file or folder")
        try:
            is_link = path.is_symlink()
        except OSError as error:
            raise ConfigError(f"--output={word!r} cannot be written: {error.strerror}") from error
        if is_link:
            raise ConfigError(f"{word} is a link, through which nothing is written: name another")
        records = workspace.layout.root.resolve()
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

    def write(self, export: Export) -> tuple[Path, ...]:
        """Write everything; returns the files.

        Raises:
            ConfigError: Something else is there, or it cannot be written; says why.
        """
        try:
            return self._write_folder(export) if export.folder else self._write_files(export)
        except OSError as error:
            reason = error.strerror or str(error)
            raise ConfigError(
                f"{self.path} cannot be written: {reason}; name another --output"
            ) from error

    def _write_files(self, export: Export) -> tuple[Path, ...]:
        paths = {self.path.with_name(name): content for name, content in export.contents.items()}
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
        return tuple(paths)

    def _write_folder(self, export: Export) -> tuple[Path, ...]:
        self._check_replaceable(export)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_name(f".{uuid4().hex[:8]}.{self.path.name}")
        try:
            for name, content in export.contents.items():
                file = temporary / name
                file.parent.mkdir(parents=True, exist_ok=True)
                _writer(content)(file)
                sync(file)
            self._put_in_place(temporary)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        return tuple(self.path / name for name in export.contents)

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

    def _check_replaceable(self, export: Export) -> None:
        """Whatever is in a folder that is replaced must be written again: nothing else is lost."""
        self.check_free()
        if not self.path.exists():
            return
        if not self.path.is_dir():
            raise ConfigError(
                f"{self.path} is no folder, and a folder is to be written: name another"
            )
        foreign = sorted(set(_files_in(self.path)) - set(export.contents))
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
