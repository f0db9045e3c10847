"""The names of experiments, runs and labels, read as quickly as a completion needs them."""

from collections.abc import Iterator
from contextlib import suppress

from rlexp.app.workspace import Workspace
from rlexp.errors import RecordError
from rlexp.store.files import read_json
from rlexp.store.layout import ExperimentPaths


def experiment_names(workspace: Workspace) -> list[str]:
    """The names of all experiments."""
    return [paths.name for paths in workspace.layout.experiments()]


def names_inside(
    experiment: str, workspace: Workspace, *, runs: bool, labels: bool
) -> Iterator[str]:
    """The runs and labels of an experiment as `EXPERIMENT/NAME`; nothing where it does not exist."""
    for paths in workspace.layout.experiments():
        if paths.name == experiment:
            inside = [*(_labels(paths) if labels else []), *(_runs(paths) if runs else [])]
            yield from (f"{experiment}/{name}" for name in inside)


def _runs(paths: ExperimentPaths) -> list[str]:
    return [run.folder.name for run in paths.runs()]


def _labels(paths: ExperimentPaths) -> list[str]:
    """The labels in the definition, without its validation, which needs the whole protocol."""
    with suppress(RecordError, KeyError, TypeError):
        configurations = read_json(paths.definition)["configurations"]
        return list(dict.fromkeys(str(c["label"]) for c in configurations))
    return []
