"""The names that an experiment has had: `rlexp mv` writes them beside the records.

The name of an experiment is the name of its folder, and no record depends on it. Commands that were
recorded under an earlier name, and services that received the experiment under it, are recognised
by this file.
"""

from rlexp.errors import RecordError
from rlexp.store.files import publish_json, read_json
from rlexp.store.layout import ExperimentPaths, Layout


def names_of(paths: ExperimentPaths) -> tuple[str, ...]:
    """The names that an experiment has had, oldest first; the last one is its present name.

    A copy of a renamed experiment under a third name has had no other name.
    """
    try:
        names = [str(name) for name in read_json(paths.names)["names"]]
    except (RecordError, KeyError, TypeError):
        # Without the file, nothing is lost but the connection with an earlier name.
        return (paths.name,)
    if paths.name not in names:
        return (paths.name,)
    # A command that was killed before it renamed the folder leaves a name too many, and so does a
    # copy that was given back its old name.
    last = len(names) - names[::-1].index(paths.name)
    return tuple(names[:last])


def find_renamed(layout: Layout, name: str, run: str = "") -> ExperimentPaths:
    """The experiment of a name, or else the one that had this name before `rlexp mv`.

    Args:
        layout: The folder of the experiments.
        name: The name, now or before.
        run: The end of the name of a run. Where another experiment has got the name meanwhile, the
            experiment is the one that holds this run.
    """
    paths = layout.experiment(name)
    if paths.definition.exists() and _holds(paths, run):
        return paths
    former = [e for e in layout.experiments() if name in names_of(e)[:-1]]
    holding = (e for e in former if _holds(e, run))
    return next(holding, paths if paths.definition.exists() else next(iter(former), paths))


def _holds(paths: ExperimentPaths, run: str) -> bool:
    return not run or any(each.folder.name.endswith(run) for each in paths.runs())


def add_name(paths: ExperimentPaths, name: str) -> None:
    """Write the next name of an experiment, before its folder gets that name.

    Raises:
        OSError: The folder cannot be written.
    """
    publish_json(paths.names, {"names": [*names_of(paths), name]})
