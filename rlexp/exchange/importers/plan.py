"""The plan of an import: turns the runs of another tool into runs of one experiment.

All runs of a task get one budget, every run gets one seed, and all runs of a label on a task get
one configuration. Runs that cannot be compared are refused with the reason.
"""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rlexp.errors import ConfigError, ProtocolError
from rlexp.exchange.importers.budgets import (
    TOLERANCE,
    ImportedExperimentOptions,
    bin_points,
    budget_of,
    is_complete,
    last_step,
    with_final_evaluation,
)
from rlexp.exchange.importers.imported_study import (
    EarlyEnd,
    EvaluationPoint,
    ImportedRun,
    ImportedStudy,
    ReturnKind,
)
from rlexp.exchange.importers.series import merge_equal_steps
from rlexp.protocol.budget import Budget, Compute
from rlexp.protocol.experiment import Configuration, Experiment
from rlexp.protocol.identity import digest
from rlexp.protocol.leaf_differences import leaf_differences
from rlexp.protocol.measures import RETURN
from rlexp.protocol.seeds import Phase, SeedPlan
from rlexp.protocol.spec import RunSpec
from rlexp.records.events import Ending

MOST_NAMES = 6
"""Parameters that an error message lists."""
Reference = Callable[[str], Mapping[str, Any]]
"""Returns the known reference scores of a task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedImportRun:
    """A run as it will be recorded.

    Attributes:
        source: The run as it was read, with its seed.
        numbered: Whether the seed was assigned here because the source names none.
        configuration: The configuration of the run.
        points: Points of its curve, and a final evaluation if the score needs one.
        step: The last step of the run.
        trouble: How the run ended early; None if it was completed.
        cut: Number of points after the budget, which were left out.
        phase: The phase of the run; trials of a search are tuning runs.
        root: The root of its seeds; 0 where another tool chose the seeds.
    """

    source: ImportedRun
    numbered: bool
    configuration: Configuration
    points: tuple[EvaluationPoint, ...]
    step: int
    trouble: EarlyEnd | None
    cut: int
    phase: Phase = Phase.TEST
    root: int = 0

    @property
    def spec(self) -> RunSpec:
        """The specification of the run."""
        assert self.source.seed is not None
        return self.configuration.spec(self.phase, self.root, self.source.seed)

    @property
    def content(self) -> str:
        """A digest of everything read of the run, by which a repeated import is recognised."""
        run, trouble = self.source, self.source.trouble
        points = [[p.step, p.returns, p.lengths, p.final] for p in run.points]
        ended = None if trouble is None else [trouble.step, str(trouble.ending), trouble.reason]
        return digest([run.label, run.task, run.seed, str(run.returns), points, ended])


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTrial:
    """A trial of an imported search: its parameters, and the configuration of its run."""

    number: int
    parameters: Mapping[str, Any]
    steps: int
    configuration: Configuration


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """The imported experiment and its new runs; of a search, the trials."""

    experiment: Experiment
    runs: tuple[PlannedImportRun, ...]
    trials: tuple[PlannedTrial, ...] = ()


def make_import_plan(
    study: ImportedStudy,
    options: ImportedExperimentOptions,
    existing: Experiment | None,
    reference: Reference,
) -> ImportPlan:
    """Choose seeds, budgets and configurations, consistent with the runs imported before.

    Args:
        study: The runs that were read.
        options: The user's options.
        existing: The existing experiment to which the runs are added.
        reference: Known reference scores of tasks.

    Raises:
        ConfigError: There are no runs, or the options do not fit the runs.
        ProtocolError: The runs cannot be compared; the message says why.
    """
    runs = _numbered(study.runs, options.seed)
    _check_apart([run for run, _ in runs])
    by_task: dict[str, list[ImportedRun]] = {}
    for run, _ in runs:
        by_task.setdefault(run.task, []).append(run)
    earlier = {c.task: c for c in existing.configurations} if existing else {}
    configurations: dict[tuple[str, str], Configuration] = {}
    for task, task_runs in by_task.items():
        _check_alike(task, task_runs, earlier.get(task), study.kind)
        budget, is_binned = budget_of(task, task_runs, options, earlier.get(task))
        # The known scores of a task are returns, and so are its bounds.
        scores = {} if task_runs[0].metric else reference(task)
        for run in task_runs:
            configuration = _configuration(run, study.kind, budget, is_binned, scores)
            _check_same(
                configurations.setdefault((run.label, task), configuration), configuration, run
            )
    for old in existing.configurations if existing else ():
        new = configurations.get((old.label, old.task))
        if new is not None and new.fingerprint != old.fingerprint:
            raise ProtocolError(_difference(old, new, f"experiment {options.name}"))
        configurations[old.label, old.task] = old
    settled = [_settled(run, configurations[run.label, run.task], number) for run, number in runs]
    return ImportPlan(_experiment(options.name, configurations, settled, existing), tuple(settled))


def _numbered(runs: Sequence[ImportedRun], first: int | None) -> list[tuple[ImportedRun, bool]]:
    """Runs with seeds: from the source, or consecutive numbers for each label and task."""
    without_seed = [run.name for run in runs if run.seed is None]
    if len(runs) == 1 and first is not None:
        return [(replace(runs[0], seed=first), runs[0].seed is None)]
    if not without_seed:
        if first is not None:
            raise ConfigError(
                "--seed is for sources without seeds, and all of these runs have one"
            )
        return [(run, False) for run in runs]
    if len(without_seed) < len(runs):
        raise ConfigError(
            f"{without_seed[0]} has no seed, and other runs have one: import the runs without a "
            "seed separately, with --seed N for the first of them"
        )
    counts: dict[tuple[str, str], int] = {}
    numbered = []
    for run in runs:
        key = run.label, run.task
        seed = counts.setdefault(key, first or 0)
        counts[key] += 1
        numbered.append((replace(run, seed=seed), True))
    return numbered


def _check_apart(runs: Sequence[ImportedRun]) -> None:
    if not runs:
        raise ConfigError("the given files contain no run")
    seen: dict[tuple[str, str, int | None], ImportedRun] = {}
    for run in runs:
        other = seen.setdefault((run.label, run.task, run.seed), run)
        if other is not run:
            names = [conflicting.name for conflicting in (other, run)]
            if other.name == run.name:
                names = [conflicting.files[0][0] for conflicting in (other, run)]
            raise ProtocolError(
                f"{' and '.join(names)} would both be seed {run.seed} of {run.label} on "
                f"{run.task}: {_way_out(other, run)}"
            )


def _way_out(first: ImportedRun, second: ImportedRun) -> str:
    """How two runs with the same label, task and seed can be told apart."""
    keys = [key for key in first.parameters if key in second.parameters]
    differing = [key for key in keys if first.parameters[key] != second.parameters[key]]
    if differing:
        more = f" (or {', '.join(differing[1:MOST_NAMES])})" if len(differing) > 1 else ""
        key = differing[0]
        condition = shlex.quote(f"{key}={first.parameters[key]}")
        return (
            f"they differ in {key}{more}, so give --label-from {shlex.quote(key)}, or import one "
            f"of them with --where {condition}"
        )
    return "import only one of them, or give one another label with --label"


def _check_alike(
    task: str, runs: Sequence[ImportedRun], earlier: Configuration | None, kind: str
) -> None:
    """Refuse runs whose returns are of different kinds."""
    sources = {run.returns: run.name for run in runs}
    if earlier is not None:
        imported = earlier.algorithm["imported"]
        sources.setdefault(ReturnKind(imported["returns"]), "the earlier import")
        if imported["kind"] != kind:
            raise ProtocolError(
                f"the runs on {task} that were imported before are of kind {imported['kind']}, and "
                f"these are of kind {kind}: choose another name with --experiment"
            )
    metrics = {run.metric or RETURN: run.name for run in runs}
    if earlier is not None:
        metrics.setdefault(
            earlier.algorithm["imported"].get("metric", RETURN), "the earlier import"
        )
    if len(metrics) > 1:
        listed = "; ".join(f"{name}: {metric}" for metric, name in metrics.items())
        raise ProtocolError(
            f"the values on {task} are of different metrics ({listed}): import them as separate "
            "experiments"
        )
    if len(sources) > 1:
        listed = "; ".join(f"{name}: {returns}" for returns, name in sources.items())
        raise ProtocolError(
            f"the returns on {task} are of different kinds ({listed}): choose one series with "
            "--metric, or import them as separate experiments"
        )


def _configuration(
    run: ImportedRun, kind: str, budget: Budget, is_binned: bool, reference: Mapping[str, Any]
) -> Configuration:
    settings = {"settings": dict(run.settings)} if run.settings else {}
    imported = {"kind": kind, "returns": str(run.returns), "binned": is_binned}
    # Runs with returns have no such entry: it would change the identity of all of them.
    named = {"metric": run.metric} if run.metric else {}
    unknown: dict[str, Any] = {"threads": None, "device": None}
    return Configuration(
        label=run.label,
        task=run.task,
        agent={},
        algorithm={"name": run.label, "imported": {**imported, **named}, **settings},
        environment={"id": run.task},
        reference=reference,
        budget=budget,
        compute=Compute(**unknown),
    )


def _check_same(first: Configuration, other: Configuration, run: ImportedRun) -> None:
    if first.fingerprint != other.fingerprint:
        raise ProtocolError(_difference(first, other, f"{run.name} and the runs before it"))


def _difference(first: Configuration, other: Configuration, where: str) -> str:
    differences = leaf_differences(first.algorithm, other.algorithm)
    listed = "; ".join(f"{d.path} {d.first!r} and {d.second!r}" for d in differences[:3])
    return (
        f"in {where}, {first.label} on {first.task} has two configurations "
        f"({listed or 'budgets differ'}): import one of them with another --label"
    )


def _settled(run: ImportedRun, configuration: Configuration, numbered: bool) -> PlannedImportRun:
    steps = configuration.budget.steps
    last = last_step(run)
    limit = steps if last > steps * (1 + TOLERANCE) else last
    kept = [point for point in merge_equal_steps(run.points) if point.step <= limit]
    trouble = run.trouble if run.trouble and run.trouble.step <= limit else None
    step = trouble.step if trouble else kept[-1].step if kept else 0
    if trouble is None and not is_complete(kept, steps):
        reason = f"its records end at step {step:,} of {steps:,}"
        trouble = EarlyEnd(step=step, ending=Ending.INTERRUPTED, reason=reason)
    is_binned = configuration.algorithm["imported"]["binned"]
    return PlannedImportRun(
        source=run,
        numbered=numbered,
        configuration=configuration,
        points=with_final_evaluation(
            tuple(bin_points(kept, steps)) if is_binned else tuple(kept), configuration.budget
        ),
        step=step,
        trouble=trouble,
        cut=len(run.points) - sum(point.step <= limit for point in run.points),
    )


def _experiment(
    name: str,
    configurations: Mapping[tuple[str, str], Configuration],
    runs: Sequence[PlannedImportRun],
    existing: Experiment | None,
) -> Experiment:
    seeds: dict[str, set[int]] = (
        {
            fingerprint: set(known_seeds)
            for fingerprint, known_seeds in (existing.imported or {}).items()
        }
        if existing
        else {}
    )
    for run in runs:
        seeds.setdefault(run.configuration.fingerprint, set()).add(run.spec.seed)
    every = tuple(sorted(set().union(*seeds.values())))
    ordered = sorted(configurations.values(), key=lambda c: (c.task, c.label))
    return Experiment(
        name=name,
        configurations=tuple(ordered),
        seeds=SeedPlan(root=0, tuning=0, selection=0, test=every),
        failures="missing",
        imported={
            fingerprint: tuple(sorted(known_seeds))
            for fingerprint, known_seeds in sorted(seeds.items())
        },
    )
