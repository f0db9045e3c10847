"""Saved policies of runs: which there are, and what restoring one would import."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rlexp.errors import RecordError
from rlexp.protocol.spec import RunSpec
from rlexp.records.run import RunRecord, State
from rlexp.store.layout import RunPaths

TRUSTED = ("rlexp", "gymnasium")
"""Packages from which a run on disk may name classes without being asked for."""


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


def check_imports(spec: RunSpec, allowed: Sequence[str], command: Sequence[str]) -> None:
    """Refuse to import what only the files of a run name.

    Args:
        spec: What defines the run, as its files say.
        allowed: Packages that the user trusts.
        command: The command to repeat with more of them.

    Raises:
        RecordError: Names the packages, and the command that allows them.
    """
    permitted = (*TRUSTED, *allowed)
    foreign = {
        module.partition(".")[0]
        for module in _modules(spec)
        if not any(module == p or module.startswith(f"{p}.") for p in permitted)
    }
    if foreign:
        flags = [word for package in sorted(foreign) for word in ("--allow-import", package)]
        raise RecordError(
            f"the run's files name code that would be executed: {', '.join(sorted(foreign))}; "
            f"if you trust it: {shlex.join([*command, *flags])}",
        )


def _modules(spec: RunSpec) -> set[str]:
    """Every module that building the run's parts would import."""
    parts = (spec.agent, spec.algorithm, spec.environment)
    if not all(isinstance(part, Mapping) for part in parts):
        raise RecordError("the run's spec.json is damaged: a part of it is no mapping")
    targets = {str(part.get("_target_")) for part in parts}
    imports = spec.environment.get("imports")
    listed = set(map(str, imports)) if isinstance(imports, list) else set()
    module, colon, _ = str(spec.environment.get("id")).partition(":")
    return targets | listed | ({module} if colon else set())
