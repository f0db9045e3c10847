"""Takes in what a worker sent back of a run: nothing of what another wrote is overwritten."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NoReturn

from rlexp.errors import RecordError
from rlexp.executors.ray.messages import Piece, unpack, write_below
from rlexp.records.checkpoint import MODEL, NORMALISATION
from rlexp.store.bundles import (
    bundle_step,
    entries,
    hidden,
    make_folder,
    remove,
    replace_file,
    set_aside,
    write_file,
)
from rlexp.store.files import publish_json, read_json, refuse_link, sync
from rlexp.store.layout import NUMBER, AttemptPaths, RunPaths
from rlexp.store.manifest import MANIFEST, Sum, decode_manifest, is_chunk

MARK = ".job"
"""The file of an attempt's folder that says which job made it."""


@dataclass(slots=True)
class Intake:
    """What one job may write of one run.

    Attributes:
        paths: The run, whose claim the caller holds.
        job: The job.
        before: The number of the last attempt that was there when the run was sent out.
    """

    paths: RunPaths
    job: str
    before: int
    _own: set[int] = field(default_factory=set)

    def take_in(self, parcel: bytes, kept: Sequence[str] | None = None) -> None:
        """Write what is in a parcel, in its order.

        Args:
            parcel: Its bytes.
            kept: The checkpoints and the experience that the worker still has; what it removed
                is removed here once the others are all here.

        Raises:
            OSError: The disk is full or fails.
            RecordError: The job was overtaken by another, or sent what no worker sends; nothing
                was changed that another wrote.
        """
        self._check_fence()
        for folder, group in groupby(unpack(parcel), key=lambda piece: piece.parts[:2]):
            pieces = list(group)
            if folder[0] == "checkpoints":
                self._publish_bundle(folder[-1], pieces)
            else:
                for piece in pieces:
                    self._write(piece)
        if kept is not None:
            self._remove_others(set(kept))

    def _check_fence(self) -> None:
        for attempt in self.paths.attempts():
            if attempt.number > self.before and not self._is_own(attempt):
                raise RecordError(
                    f"what job {self.job} still sent of run {self.paths.folder.name} was refused: "
                    f"attempt {attempt.number} is that of another"
                )

    def _is_own(self, attempt: AttemptPaths) -> bool:
        try:
            return read_json(attempt.folder / MARK).get("job") == self.job
        except RecordError:
            return False

    def _write(self, piece: Piece) -> None:
        match piece.parts:
            case ("attempts", number, _, *_) if NUMBER.fullmatch(number):
                self._grant(int(number))
            case ("replay", name) if is_chunk(name) and piece.offset is None:
                pass
            case (name,) if name in {MODEL, NORMALISATION} and piece.offset is None:
                pass
            case _:
                self._refuse(piece.name)
        write_below(self.paths.folder, piece)

    def _grant(self, number: int) -> None:
        if number in self._own:
            return
        if number <= self.before:
            raise RecordError(
                f"job {self.job} sent something of attempt {number} of run "
                f"{self.paths.folder.name}, which it did not make"
            )
        attempt = self.paths.attempt(number)
        refuse_link(attempt.folder.parent)
        try:
            attempt.folder.mkdir(parents=True)
        except FileExistsError as error:
            raise RecordError(
                f"attempt {number} of run {self.paths.folder.name} is that of another"
            ) from error
        publish_json(attempt.folder / MARK, {"job": self.job})
        self._own.add(number)

    def _publish_bundle(self, name: str, pieces: Sequence[Piece]) -> None:
        final = self.paths.checkpoints / name
        step = bundle_step(final)
        files = {piece.parts[-1]: piece.content for piece in pieces}
        if step is None or any(len(p.parts) != 3 or p.offset is not None for p in pieces):
            self._refuse(f"checkpoints/{name}")
        manifest = self._check_bundle(step, files)
        make_folder(self.paths.checkpoints)
        if not files:
            replace_file(final / MANIFEST, manifest)
            return
        temporary = hidden(self.paths.checkpoints, name)
        temporary.mkdir()
        for file, content in {**files, MANIFEST: manifest}.items():
            write_file(temporary / file, content)
        sync(temporary)
        if final.exists():
            aside = set_aside(self.paths.checkpoints, step)
            if aside.exists():
                remove(aside)
            final.rename(aside)
            temporary.rename(final)
            remove(aside)
        else:
            temporary.rename(final)
        sync(self.paths.checkpoints)

    def _check_bundle(self, step: int, files: dict[str, bytes]) -> bytes:
        """See that a checkpoint is complete, or is a new manifest for one; its manifest."""
        try:
            content = files.pop(MANIFEST)
            manifest = decode_manifest(content)
            told = {file: Sum.of(body) for file, body in files.items()}
        except (KeyError, ValueError) as error:
            raise RecordError(f"job {self.job} sent a damaged checkpoint: {error}") from error
        if manifest.step != step or (files and told != manifest.files):
            raise RecordError(f"job {self.job} sent a damaged checkpoint of step {step}")
        if not files and not _has_all(self.paths, step, manifest.files):
            raise RecordError(f"job {self.job} sent a manifest without its checkpoint")
        return content

    def _remove_others(self, kept: set[str]) -> None:
        if not all((self.paths.folder / name).exists() for name in kept):
            return
        for path in entries(self.paths.checkpoints):
            if bundle_step(path) is not None and f"checkpoints/{path.name}" not in kept:
                remove(path)
        for path in entries(self.paths.replay):
            if is_chunk(path.name) and f"replay/{path.name}" not in kept:
                remove(path)

    def _refuse(self, name: str) -> NoReturn:
        raise RecordError(
            f"job {self.job} sent {name!r:.200} of run {self.paths.folder.name}, "
            "which no worker sends"
        )


def _has_all(paths: RunPaths, step: int, files: Mapping[str, Sum]) -> bool:
    folder = paths.checkpoints / str(step)
    return all((folder / name).is_file() for name in files)
