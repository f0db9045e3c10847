"""Finds and describes imported runs, and refuses to execute them."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from rlexp.app.reading.older_schema import refuse_older
from rlexp.errors import RecordError
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import ASK_AND_TELL, RunSpec
from rlexp.store.layout import ExperimentPaths
from rlexp.store.runs import read_definition
from rlexp.text import format_count


def refuse_imported(experiment: Experiment, instead: str = "") -> None:
    """Refuse to execute runs of an imported experiment.

    Args:
        experiment: Any experiment.
        instead: What to do instead, beginning with a comma or a semicolon.

    Raises:
        RecordError: The experiment was imported.
    """
    if is_ask_and_tell(experiment):
        raise RecordError(
            f"the runs of experiment {experiment.name} are trained by the program that asks for them "
            "with rlexp.sweep_study, so rlexp cannot execute them"
            f"{instead or '; start that program again to go on'}"
        )
    if experiment.imported is not None:
        _refuse(f"experiment {experiment.name}", instead)


def is_ask_and_tell(experiment: Experiment) -> bool:
    """Whether the runs of a sweep are trained by the program that asks for them."""
    if experiment.sweep is None:
        return False
    source = experiment.default.algorithm.get("imported")
    return isinstance(source, Mapping) and source.get("kind") == ASK_AND_TELL


def refuse_imported_run(spec: RunSpec) -> None:
    """Refuse to evaluate or to reproduce an imported run.

    Raises:
        RecordError: The run was imported.
    """
    if spec.imported is not None:
        _refuse(f"run {spec.name}")


def refuse_external_run(spec: RunSpec) -> None:
    """Refuse to evaluate a run of a training script.

    Raises:
        RecordError: A training script made the run.
    """
    if spec.external:
        raise RecordError(
            f"run {spec.name} was trained by a script, so it has no stable-baselines3 model to evaluate: "
            "what the script saved is in attempts/…/files of the run"
        )


def _refuse(what: str, instead: str = "") -> NoReturn:
    raise RecordError(
        f"{what} was imported from another tool, so rlexp cannot execute it"
        f"{instead or '; report, compare, power, ls, show and verify accept it'}"
    )


def describe_source(spec: RunSpec) -> str | None:
    """The source of an imported run as text (`imported from sb3-monitor: training episodes`)."""
    source = spec.imported
    if source is None:
        return None
    binned = ", put together in hundredths of the budget" if source.get("binned") else ""
    metric = f" of {spec.quantity}" if "metric" in source else ""
    return f"imported from {source.get('kind')}: {source.get('returns')}{metric}{binned}"


def imported_counts(experiment: Experiment) -> dict[str, int]:
    """The number of imported runs, by a text with their source and the kind of their returns."""
    counts: Counter[str] = Counter()
    of_sweep = experiment.trials if experiment.sweep is not None else experiment.configurations
    for configuration in of_sweep:
        source = describe_source(configuration.spec(Phase.TEST, 0, 0))
        runs = (experiment.imported or {}).get(configuration.fingerprint, ())
        if source is not None and runs:
            counts[source] += len(runs)
    return dict(counts)


def imported_lines(experiment: Experiment) -> Iterator[str]:
    """Yield the number of imported runs and their source, one line for each source."""
    counts = imported_counts(experiment)
    yield from (f"{format_count(number, 'run')} {source}" for source, number in counts.items())


def recorded_content(provenance: Mapping[str, Any]) -> str | None:
    """The hash of the content that was imported for a run, from its provenance, or None."""
    imported = provenance.get("imported")
    content = imported.get("content") if isinstance(imported, Mapping) else None
    return content if isinstance(content, str) else None


def read_imported_experiment(paths: ExperimentPaths) -> Experiment | None:
    """The imported experiment of this name, or None where no folder has the name.

    Raises:
        RecordError: The name belongs to something else, or the experiment is damaged.
    """
    if not paths.folder.exists() and not paths.folder.is_symlink():
        return None
    if not paths.definition.exists():
        raise RecordError(
            f"{paths.folder} exists and is not an experiment: choose another name with "
            "--experiment"
        )
    experiment = read_definition(paths)
    if experiment.imported is None:
        raise RecordError(
            f"experiment {paths.name} holds runs of rlexp, and results cannot be imported into it: choose "
            "another name with --experiment"
        )
    refuse_older(experiment)
    if not all(_is_marked(c.algorithm) for c in experiment.configurations):
        raise RecordError(
            f"{paths.definition} is damaged: a configuration does not name its source"
        )
    return experiment


def _is_marked(algorithm: Mapping[str, Any]) -> bool:
    source = algorithm.get("imported")
    return isinstance(source, Mapping) and {"kind", "returns", "binned"} <= set(source)
