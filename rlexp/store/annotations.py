"""Reads and changes the tags and notes of an experiment and its runs: one file beside the records.

The file is no record: the ledger does not seal it, no number is computed from it, and it may be
changed while runs are under way.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from rlexp.errors import RecordError
from rlexp.records.annotation import Annotation
from rlexp.store.files import publish_json, read_json
from rlexp.store.layout import ExperimentPaths
from rlexp.store.locks.lease import hold

PATIENCE = 10.0
"""Seconds to wait for another command that changes the same file; that takes milliseconds."""


@dataclass(frozen=True, slots=True)
class Annotations:
    """The tags and notes of an experiment, and those of its runs by name."""

    experiment: Annotation = field(default_factory=Annotation)
    runs: dict[str, Annotation] = field(default_factory=dict)

    def of(self, run: str | None) -> Annotation:
        """The annotation of a run; with None, that of the experiment."""
        return self.experiment if run is None else self.runs.get(run, Annotation())

    def having(self, run: str | None, annotation: Annotation) -> "Annotations":
        """The same with another annotation of a run, or with None of the experiment."""
        if run is None:
            return Annotations(annotation, self.runs)
        others = {name: a for name, a in self.runs.items() if name != run}
        # An empty annotation leaves no trace in the file.
        kept = {run: annotation} if annotation != Annotation() else {}
        return Annotations(self.experiment, {**others, **kept})


def read_annotations(paths: ExperimentPaths) -> Annotations:
    """Read the tags and notes of an experiment; empty where it has none.

    Raises:
        RecordError: The file is damaged.
    """
    if not paths.annotations.is_symlink() and not paths.annotations.exists():
        return Annotations()
    document = read_json(paths.annotations)
    try:
        return Annotations(
            Annotation.from_plain(document["experiment"]),
            {str(n): Annotation.from_plain(a) for n, a in document["runs"].items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RecordError(
            f"{paths.annotations} is damaged: {error!r}; repair or remove it"
        ) from error


def read_readable_annotations(paths: ExperimentPaths) -> tuple[Annotations, tuple[str, ...]]:
    """The tags and notes of an experiment, and why they cannot be read; scores need neither."""
    try:
        return read_annotations(paths), ()
    except RecordError as error:
        return Annotations(), (str(error),)


def change_annotation(
    paths: ExperimentPaths, run: str | None, change: Callable[[Annotation], Annotation]
) -> Annotation:
    """Change the annotation of a run, or with None of the experiment; returns the new one.

    Nothing is written where the change changes nothing, or raises an error.

    Raises:
        RecordError: The file is damaged, or cannot be written.
    """
    what = f"the file with tags and notes of {paths.name}"
    try:
        # Read under the lease: two commands that change the file at once must both count.
        with hold(paths.annotations_lock, what, now=time.time(), patience=PATIENCE):
            present = read_annotations(paths)
            changed = change(present.of(run))
            if changed != present.of(run):
                _write(paths, present.having(run, changed))
    except OSError as error:
        raise RecordError(
            f"{paths.annotations} cannot be written: {error.strerror}", code="unwritable"
        ) from error
    return changed


def _write(paths: ExperimentPaths, annotations: Annotations) -> None:
    runs = {name: a.plain() for name, a in sorted(annotations.runs.items())}
    document = {"experiment": annotations.experiment.plain(), "runs": runs}
    publish_json(paths.annotations, document)
