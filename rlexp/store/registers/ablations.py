"""The file of an ablation: what it compares, written before its first run."""

import os
import shlex
from dataclasses import replace

from rlexp.errors import RecordError
from rlexp.protocol.identity import canonical
from rlexp.protocol.leaf_differences import leaf_differences
from rlexp.records.ablation import Ablation
from rlexp.store.files import read_json
from rlexp.store.layout import ExperimentPaths
from rlexp.store.registers.ledger import publish_document
from rlexp.store.secrets import mask, secret_values


def read_ablation(paths: ExperimentPaths) -> Ablation | None:
    """The ablation of an experiment; None for any other experiment.

    Raises:
        RecordError: The file is damaged.
    """
    if not paths.ablation.exists():
        return None
    try:
        return Ablation.from_plain(read_json(paths.ablation))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RecordError(f"{paths.ablation} is damaged: {error!r}") from error


def freeze_ablation(paths: ExperimentPaths, ablation: Ablation) -> Ablation:
    """Write an ablation before its first run; the same one stays as it is.

    Returns:
        The ablation on disk.

    Raises:
        RecordError: Another ablation is frozen there; lists the differences.
    """
    existing = check_ablation(paths, ablation)
    if existing is not None:
        return existing
    values = secret_values(os.environ)
    masked = replace(ablation, command=tuple(mask(word, values) for word in ablation.command))
    publish_document(paths, paths.ablation, masked.plain())
    return masked


def check_ablation(paths: ExperimentPaths, ablation: Ablation) -> Ablation | None:
    """The frozen ablation if it is this one, or None where none is frozen.

    Raises:
        RecordError: Another ablation is frozen there; lists the differences.
    """
    existing = read_ablation(paths)
    # Compared as JSON, in which tuples are lists.
    if existing is None or canonical(existing.question) == canonical(ablation.question):
        return existing
    differences = [*leaf_differences(existing.question, ablation.question)]
    text = "; ".join(f"{d.path}: {d.first!r} there, {d.second!r} here" for d in differences[:5])
    raise RecordError(
        f"{paths.name} is another ablation, which was frozen before its first run ({text}); choose "
        f"another name: experiment={paths.name}-2",
        key="experiment",
    )


def ablation_command(paths: ExperimentPaths) -> tuple[str, ...] | None:
    """The command that continues the ablation of an experiment; None for any other experiment."""
    if not paths.ablation.exists():
        return None
    try:
        ablation = read_ablation(paths)
    except RecordError:
        ablation = None
    # A damaged file still marks the experiment.
    return ("rlexp", "ablate", "SWEEP") if ablation is None else ablation.command


def refuse_ablation(paths: ExperimentPaths) -> None:
    """Refuse to test the runs of an ablation by another design.

    Raises:
        RecordError: It is an ablation; the message has its command.
    """
    if command := ablation_command(paths):
        again = shlex.join(command)
        raise RecordError(
            f"{paths.name} is an ablation, whose comparisons were declared in advance: continue it "
            f"with {again}",
            command=again,
            key=paths.name,
        )
