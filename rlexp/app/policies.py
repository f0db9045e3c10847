"""Saved policies of runs: which there are, and whether their files are what they should be."""

from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from rlexp.app.reading.imported import refuse_external_run
from rlexp.errors import RecordError
from rlexp.protocol.spec import RunSpec
from rlexp.records.run import RunRecord, State
from rlexp.store.layout import RunPaths

MOST_UNPACKED = 10
"""Times the size of an archive that its content may have; ours are not compressed at all."""
SPARE = 1 << 24
"""Bytes that the content may have on top of that."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A saved policy: of which run, where it lies, and after how many steps it was saved."""

    spec: RunSpec
    model: Path
    normalisation: Path
    step: int
    checkpoint: bool
    weights: str | None


def find_policy(paths: RunPaths, record: RunRecord, checkpoint: int | None) -> Policy:
    """The policy that is asked for: the final one, or that of a checkpoint.

    Raises:
        RecordError: The run has none; says why, and which there are.
    """
    refuse_external_run(record.spec)
    steps = _checkpoints(paths)
    name = paths.folder.name
    known = f"it has: {', '.join(map(str, steps))}" if steps else "it has none"
    if checkpoint is not None:
        if checkpoint not in steps:
            raise RecordError(f"run {name} has no checkpoint at step {checkpoint} ({known})")
        folder = RunPaths(paths.checkpoints / str(checkpoint))
        return Policy(record.spec, folder.model, folder.normalisation, checkpoint, True, None)
    if record.state is State.COMPLETED and paths.model.is_file():
        final = paths.model, paths.normalisation, record.step
        return Policy(record.spec, *final, False, record.weights)
    kind = f" ({record.failure})" if record.failure else ""
    reason = f": {record.reason}" if record.reason else ""
    hint = f"; --checkpoint={steps[-1]} evaluates its last checkpoint" if steps else ""
    missing = ", but its model.zip is missing" if record.state is State.COMPLETED else ""
    raise RecordError(
        f"run {name} has no final policy: it is {record.state}{kind}{missing}{reason}{hint}"
    )


def _checkpoints(paths: RunPaths) -> list[int]:
    try:
        folders = [p for p in paths.checkpoints.iterdir() if p.name.isascii() and p.name.isdigit()]
    except OSError:
        return []
    return sorted(int(p.name) for p in folders if (p / "model.zip").is_file())


def check_archives(policy: Policy, run: RunPaths) -> None:
    """Refuse files that lie elsewhere, or would fill the memory when they are unpacked.

    What is no archive at all is left to those who read it.

    Raises:
        RecordError: One of them does; says which.
    """
    home = run.folder.resolve()
    for path in (policy.model, policy.normalisation):
        if not path.resolve().is_relative_to(home):
            raise RecordError(
                f"{path} is a link out of the run's folder, which is not followed; "
                "copy the file there"
            )
        if path.is_file() and (size := _unpacked(path)) > _limit(path):
            raise RecordError(
                f"{path} would unpack to {size:,} bytes, many times its size: it was not written "
                "by rlexp; take it from a copy of the run"
            )


def _limit(path: Path) -> int:
    return MOST_UNPACKED * path.stat().st_size + SPARE


def _unpacked(path: Path) -> int:
    try:
        with ZipFile(path) as archive:
            return sum(member.file_size for member in archive.infolist())
    except (OSError, BadZipFile, ValueError, NotImplementedError):
        return 0
