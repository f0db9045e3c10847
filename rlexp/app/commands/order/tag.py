"""`rlexp tag`: adds, removes or shows the tags of an experiment or a run."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rlexp.app.results import Displayed, Schema
from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError
from rlexp.records.annotation import Annotation, check_tag
from rlexp.store.annotations import change_annotation, read_annotations
from rlexp.store.layout import ExperimentPaths, RunPaths


@dataclass(frozen=True, slots=True, kw_only=True)
class Tagging(Displayed):
    """The tags of an experiment or a run, and what the command changed.

    Attributes:
        name: The experiment, or the run as `EXPERIMENT/RUN`.
        tags: Its tags now.
        added: The tags that were added.
        removed: The tags that were removed.
    """

    schema: ClassVar[Schema] = Schema("tagging")

    name: str
    tags: tuple[str, ...]
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


def tag(
    target: str, tags: Sequence[str], workspace: Workspace, *, remove: bool = False
) -> Tagging:
    """Add tags to an experiment or a run, or remove them; without tags, only read them.

    Raises:
        RlexpError: There is no such experiment or run, a tag is not allowed, a tag to remove is
            not there, or the folder cannot be written; nothing was changed.
    """
    experiment, run = annotated(target, workspace)
    name = experiment.name if run is None else f"{experiment.name}/{run}"
    if not tags and remove:
        command = shlex.join(["rlexp", "tag", name])
        raise ConfigError(f"--remove needs the tags to remove; to see them: {command}")
    for word in () if remove else tags:
        check_tag(word)
    before = read_annotations(experiment).of(run)
    if not tags:
        return Tagging(name=name, tags=before.tags)

    def change(present: Annotation) -> Annotation:
        nonlocal before
        before = present
        if not remove:
            return present.tagged(tags)
        _require(name, tags, present)
        return present.untagged(tags)

    after = change_annotation(experiment, run, change)
    return Tagging(
        name=name,
        tags=after.tags,
        added=tuple(word for word in after.tags if word not in before.tags),
        removed=tuple(word for word in before.tags if word not in after.tags),
    )


def annotated(target: str, workspace: Workspace) -> tuple[ExperimentPaths, str | None]:
    """The experiment of a target, and the name of the run if the target is a run.

    Raises:
        RecordError: No experiment and no run matches, or several runs do.
    """
    match = workspace.find(target)
    if isinstance(match, RunPaths):
        return ExperimentPaths(match.folder.parent), match.folder.name
    return match, None


def _require(name: str, tags: Sequence[str], present: Annotation) -> None:
    for word in tags:
        if word not in present.tags:
            raise ConfigError.unknown(f"{name} has no tag {word!r}", word, present.tags, key="tag")
