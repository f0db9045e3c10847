"""What another tool made: it is looked at as any run is, and never executed."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from rlexp.app.reading.older_schema import refuse_older
from rlexp.errors import RecordError
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.store.layout import ExperimentPaths
from rlexp.store.runs import read_definition
from rlexp.text import counted


def refuse_imported(experiment: Experiment, instead: str = "") -> None:
    """Refuse to run anything of an experiment that was imported.

    Args:
        experiment: Any.
        instead: What to do instead, after a comma or a semicolon.

    Raises:
        RecordError: It was.
    """
    if experiment.imported is not None:
        _refuse(f"experiment {experiment.name}", instead)


def refuse_imported_run(spec: RunSpec) -> None:
    """Refuse to play or to repeat a run that was imported.

    Raises:
        RecordError: It was.
    """
    if spec.imported is not None:
        _refuse(f"run {spec.name}")


def refuse_external_run(spec: RunSpec) -> None:
    """Refuse to play a run that a training script made.

    Raises:
        RecordError: One did.
    """
    if spec.external:
        raise RecordError(
            f"run {spec.name} was trained by a script, and has no stable-baselines3 model to play: "
            "what the script saved is in attempts/…/files of the run"
        )


def _refuse(what: str, instead: str = "") -> NoReturn:
    raise RecordError(
        f"{what} was imported: another tool made it, and there is nothing here to execute"
        f"{instead or '; report, compare, power, ls, show and verify take it'}"
    )


def source_in_words(spec: RunSpec) -> str | None:
    """Where an imported run comes from (`imported from sb3-monitor: training episodes`)."""
    marked = spec.imported
    if marked is None:
        return None
    binned = ", put together in hundredths of the budget" if marked.get("binned") else ""
    return f"imported from {marked.get('kind')}: {marked.get('returns')}{binned}"


def imported_counts(experiment: Experiment) -> dict[str, int]:
    """How many runs were imported, by their source and the kind of their returns, in words."""
    counts: Counter[str] = Counter()
    for configuration in experiment.configurations:
        source = source_in_words(configuration.spec(Phase.TEST, 0, 0))
        runs = (experiment.imported or {}).get(configuration.fingerprint, ())
        if source is not None and runs:
            counts[source] += len(runs)
    return dict(counts)


def imported_lines(experiment: Experiment) -> Iterator[str]:
    """The same, a line for each source."""
    counts = imported_counts(experiment)
    yield from (f"{counted(number, 'run')} {source}" for source, number in counts.items())


def recorded_content(provenance: Mapping[str, Any]) -> str | None:
    """The sum of what was read of a run when it was imported, as its provenance says."""
    imported = provenance.get("imported")
    content = imported.get("content") if isinstance(imported, Mapping) else None
    return content if isinstance(content, str) else None


def found_before(paths: ExperimentPaths) -> Experiment | None:
    """The imported experiment of this name, or nothing where there is none.

    Raises:
        RecordError: The name is taken by something else, or it is damaged.
    """
    if not paths.folder.exists() and not paths.folder.is_symlink():
        return None
    if not paths.definition.exists():
        raise RecordError(
            f"{paths.folder} is there, and holds no experiment: choose another name with "
            "--experiment"
        )
    there = read_definition(paths)
    if there.imported is None:
        raise RecordError(
            f"experiment {paths.name} holds runs of rlexp, to which nothing is imported: choose "
            "another name with --experiment"
        )
    refuse_older(there)
    if not all(_is_marked(c.algorithm) for c in there.configurations):
        raise RecordError(f"{paths.definition} is damaged: a configuration says not whence it is")
    return there


def _is_marked(algorithm: Mapping[str, Any]) -> bool:
    marked = algorithm.get("imported")
    return isinstance(marked, Mapping) and {"kind", "returns", "binned"} <= set(marked)
