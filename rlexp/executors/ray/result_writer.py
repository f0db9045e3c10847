"""Writes the files that a remote worker sends back into the folder of their run.

The files are not trusted: only names that a worker writes are accepted. A job that was superseded
is refused, so that nothing that another job wrote is overwritten.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from typing import NoReturn

from rlexp.errors import RecordError
from rlexp.executors.ray.messages import Piece, unpack, write_below
from rlexp.records.checkpoint import MODEL, NORMALISATION
from rlexp.records.run import State
from rlexp.store.checkpoints.checkpoint_folders import (
    entries,
    hidden,
    make_folder,
    remove,
    replace_file,
    set_aside,
    step_of_folder,
    write_file,
)
from rlexp.store.checkpoints.inheritance import drop_copy
from rlexp.store.checkpoints.manifest import MANIFEST, Sum, decode_manifest, is_chunk
from rlexp.store.files import publish_json, read_json, refuse_link, sync
from rlexp.store.layout import NUMBER, AttemptPaths, RunPaths
from rlexp.store.runs import read_run

MARK = ".job"
"""The file in an attempt's folder that names the job which made the attempt."""


@dataclass(slots=True)
class Intake:
    """Writes the files of one run that one job sends back.

    Attributes:
        paths: The run, whose claim the caller holds.
        job: Key of the job.
        before: Number of the last attempt when the run was sent to the job.
    """

    paths: RunPaths
    job: str
    before: int
    _granted: set[int] = field(default_factory=set)

    def take_in(self, parcel: bytes, kept: Sequence[str] | None = None) -> None:
        """Write the pieces of a parcel in their order.

        Args:
            parcel: The bytes of the parcel.
            kept: The checkpoints and replay chunks that the worker still has. Once all of them
                are here, all others are removed.

        Raises:
            OSError: The disk is full or fails.
            RecordError: The job was superseded, or sent a file that no worker sends. No file of
                another job was changed.
        """
        # At every parcel: another command may have taken over the run since the last one.
        self._check_fence()
        for folder, group in groupby(unpack(parcel), key=lambda piece: piece.parts[:2]):
            pieces = list(group)
            if folder[0] == "checkpoints":
                self._publish_checkpoint(folder[-1], pieces)
            else:
                for piece in pieces:
                    self._write(piece)
        if kept is not None:
            self._remove_others(set(kept))
            self._drop_copy_of_parent()

    def _check_fence(self) -> None:
        for attempt in self.paths.attempts():
            if attempt.number > self.before and not self._made_by_this_job(attempt):
                raise RecordError(
                    f"late files of job {self.job} for run {self.paths.folder.name} were refused: "
                    f"another job has made attempt {attempt.number}"
                )

    def _made_by_this_job(self, attempt: AttemptPaths) -> bool:
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
        """Create the folder of an attempt for this job, unless it has created it before."""
        if number in self._granted:
            return
        if number <= self.before:
            raise RecordError(
                f"job {self.job} sent a file of attempt {number} of run "
                f"{self.paths.folder.name}, which another job has made"
            )
        attempt = self.paths.attempt(number)
        refuse_link(attempt.folder.parent)
        try:
            # `mkdir` fails where the folder exists: of two jobs, only one gets the number.
            attempt.folder.mkdir(parents=True)
        except FileExistsError as error:
            raise RecordError(
                f"attempt {number} of run {self.paths.folder.name} belongs to another job"
            ) from error
        publish_json(attempt.folder / MARK, {"job": self.job})
        self._granted.add(number)

    def _publish_checkpoint(self, name: str, pieces: Sequence[Piece]) -> None:
        final = self.paths.checkpoints / name
        step = step_of_folder(final)
        files = {piece.parts[-1]: piece.content for piece in pieces}
        if step is None or any(len(p.parts) != 3 or p.offset is not None for p in pieces):
            self._refuse(f"checkpoints/{name}")
        manifest = self._check_checkpoint(step, files)
        make_folder(self.paths.checkpoints)
        # A manifest alone replaces that of a checkpoint whose files are here already.
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

    def _check_checkpoint(self, step: int, files: dict[str, bytes]) -> bytes:
        """Check that a checkpoint is complete, or is a new manifest; returns the manifest."""
        try:
            content = files.pop(MANIFEST)
            manifest = decode_manifest(content)
            sums = {file: Sum.of(body) for file, body in files.items()}
        except (KeyError, ValueError) as error:
            raise RecordError(f"job {self.job} sent a damaged checkpoint: {error}") from error
        if manifest.step != step or (files and sums != manifest.files):
            raise RecordError(f"job {self.job} sent a damaged checkpoint of step {step}")
        if not files and not _has_all(self.paths, step, manifest.files):
            raise RecordError(f"job {self.job} sent a manifest without its checkpoint")
        return content

    def _remove_others(self, kept: set[str]) -> None:
        # New checkpoints before the old ones go: a parcel may have been lost on its way.
        if not all((self.paths.folder / name).exists() for name in kept):
            return
        for path in entries(self.paths.checkpoints):
            if step_of_folder(path) is not None and f"checkpoints/{path.name}" not in kept:
                remove(path)
        for path in entries(self.paths.replay):
            if is_chunk(path.name) and f"replay/{path.name}" not in kept:
                remove(path)

    def _drop_copy_of_parent(self) -> None:
        # The worker has removed its own copy. This one goes only when the end of the run is here:
        # without it, another attempt may begin with the copy.
        if os.path.lexists(self.paths.parent.folder):
            with suppress(RecordError):
                if read_run(self.paths).record.state in {State.COMPLETED, State.PRUNED}:
                    drop_copy(self.paths)

    def _refuse(self, name: str) -> NoReturn:
        raise RecordError(
            f"job {self.job} sent {name!r:.200} of run {self.paths.folder.name}, "
            "which no worker sends"
        )


def _has_all(paths: RunPaths, step: int, files: Mapping[str, Sum]) -> bool:
    folder = paths.checkpoints / str(step)
    return all((folder / name).is_file() for name in files)
