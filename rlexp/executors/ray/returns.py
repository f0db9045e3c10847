"""What a worker makes in a folder of its own, sent back bit by bit: the journal goes last."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rlexp.executors.ray.mailbox import Message
from rlexp.executors.ray.messages import Piece, pack, read_below
from rlexp.records.checkpoint import MODEL, NORMALISATION
from rlexp.records.events import RunEnded
from rlexp.store.bundles import bundle_step
from rlexp.store.manifest import MANIFEST, is_chunk

JOURNAL, PROGRESS = "events.jsonl", "progress.bin"
ENDED = f'"event":"{RunEnded.tag}"'.encode()
TOGETHER = 1 << 24
"""Bytes of small files that travel in one parcel."""


@dataclass(slots=True)
class Returns:
    """Knows what of a run's folder the command has seen."""

    folder: Path
    _seen: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    _journals: dict[str, int] = field(default_factory=dict)
    _progress: dict[str, bytes] = field(default_factory=dict)
    _attempts: int = 0

    def __post_init__(self) -> None:
        """What is there came from the command."""
        for name in _files(self.folder):
            self._is_new(name)
            if name.endswith(f"/{JOURNAL}"):
                self._journals[name] = (self.folder / name).stat().st_size
        self._attempts = len(_names(self.folder / "attempts"))

    def messages(self, *, everything: bool, last: bool = False) -> Iterator[Message]:
        """What is new, to be sent in this order.

        Args:
            everything: Whether to look at all files, and not only at journals and progress.
            last: Whether nobody writes any more, so that a torn line stays one.
        """
        news = self._news(last)
        attempts = len(_names(self.folder / "attempts"))
        if not everything and attempts == self._attempts and not _tells_the_end(news):
            if news:
                yield self._message(pack(news))
            return
        self._attempts = attempts
        for unit in self._units():
            yield self._message(pack(unit))
        # As much as possible of what led to the files; an end that came meanwhile rests on more.
        later = self._news(last)
        if _tells_the_end(later):
            for unit in self._units():
                yield self._message(pack(unit))
        yield {**self._message(pack([*news, *later])), "kept": self._kept()}

    def _message(self, parcel: bytes) -> Message:
        return {"run": self.folder.name, "parcel": parcel}

    def _news(self, last: bool) -> list[Piece]:
        found = []
        for number in _names(self.folder / "attempts"):
            found += self._progress_news(f"attempts/{number}/{PROGRESS}")
            found += self._journal_news(f"attempts/{number}/{JOURNAL}", last)
        return found

    def _progress_news(self, name: str) -> list[Piece]:
        piece = read_below(self.folder, name, 0)
        if piece is None or self._progress.get(name) == piece.content:
            return []
        self._progress[name] = piece.content
        return [piece]

    def _journal_news(self, name: str, last: bool) -> list[Piece]:
        offset = self._journals.get(name, 0)
        piece = read_below(self.folder, name, offset)
        if piece is None:
            return []
        whole = len(piece.content) if last else piece.content.rfind(b"\n") + 1
        self._journals[name] = offset + whole
        return [Piece(name, piece.content[:whole], offset)] if whole else []

    def _units(self) -> Iterator[list[Piece]]:
        """Files that belong together, what others rest on first."""
        for name in _names(self.folder / "replay"):
            if is_chunk(name) and self._is_new(f"replay/{name}"):
                yield self._read([f"replay/{name}"])
        for name in _names(self.folder / "checkpoints"):
            if bundle_step(Path(name)) is not None:
                yield from self._bundle(f"checkpoints/{name}")
        others = [
            f for f in _files(self.folder / "attempts") if not f.endswith((JOURNAL, PROGRESS))
        ]
        yield from self._small([MODEL, NORMALISATION, *(f"attempts/{name}" for name in others)])

    def _bundle(self, name: str) -> Iterator[list[Piece]]:
        files = [f"{name}/{file}" for file in _names(self.folder / name) if file != MANIFEST]
        manifest = f"{name}/{MANIFEST}"
        if not (self.folder / manifest).exists():
            return
        changed = [file for file in files if self._is_new(file)]
        if not self._is_new(manifest) and not changed:
            return
        pieces = self._read([*(files if changed else []), manifest])
        if not pieces or pieces[-1].name != manifest:
            # It was removed meanwhile.
            self._seen.pop(manifest, None)
            return
        yield pieces

    def _small(self, names: list[str]) -> Iterator[list[Piece]]:
        together, size = list[Piece](), 0
        for name in names:
            pieces = self._read([name]) if self._is_new(name) else []
            together += pieces
            size += sum(len(piece.content) for piece in pieces)
            if size > TOGETHER:
                yield together
                together, size = [], 0
        if together:
            yield together

    def _read(self, names: list[str]) -> list[Piece]:
        pieces = (read_below(self.folder, name) for name in names)
        return [piece for piece in pieces if piece is not None]

    def _is_new(self, name: str) -> bool:
        try:
            status = os.lstat(self.folder / name)
        except OSError:
            return False
        stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
        if self._seen.get(name) == stamp:
            return False
        self._seen[name] = stamp
        return True

    def _kept(self) -> list[str] | None:
        """What the worker has of checkpoints and experience, where that can be told."""
        found = []
        for folder in ("checkpoints", "replay"):
            try:
                names = os.listdir(self.folder / folder)  # noqa: PTH208
            except FileNotFoundError:
                names = []
            except OSError:
                return None
            found += [f"{folder}/{name}" for name in names if not name.startswith(".")]
        return found


def _tells_the_end(news: list[Piece]) -> bool:
    return any(ENDED in piece.content for piece in news)


def _names(folder: Path) -> list[str]:
    """What is in a folder, hidden entries left out."""
    try:
        return sorted(name for name in os.listdir(folder) if not name.startswith("."))  # noqa: PTH208
    except OSError:
        return []


def _files(folder: Path) -> list[str]:
    """The files below a folder, by name; hidden ones, and what is behind links, left out."""
    found = []
    for name in _names(folder):
        path = folder / name
        if path.is_symlink():
            continue
        found += [f"{name}/{inner}" for inner in _files(path)] if path.is_dir() else [name]
    return found
