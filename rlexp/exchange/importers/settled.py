"""From runs of another tool to runs of an experiment: one budget a task, one seed a run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rlexp.errors import ConfigError, ProtocolError
from rlexp.exchange.importers.budgets import (
    TOLERANCE,
    Asked,
    bin_points,
    budget_of,
    is_complete,
    last_step,
    with_final_evaluation,
)
from rlexp.exchange.importers.series import merge_equal_steps
from rlexp.exchange.importers.study import (
    EarlyEnd,
    ImportedRun,
    ImportedStudy,
    Point,
    Returns,
)
from rlexp.protocol.budget import Budget, Compute
from rlexp.protocol.difference import leaf_differences
from rlexp.protocol.experiment import Configuration, Experiment
from rlexp.protocol.identity import digest
from rlexp.protocol.seeds import Phase, SeedPlan
from rlexp.protocol.spec import RunSpec
from rlexp.records.events import Ending

Reference = Callable[[str], Mapping[str, Any]]
"""The known scores of a task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledRun:
    """A run as it is recorded.

    Attributes:
        source: As it was read, with its seed.
        numbered: Whether the seed was given here, for the source names none.
        configuration: What it is a run of.
        points: Of its curve, and its final evaluation where the score needs one.
        step: How far it came.
        trouble: How it ended, where it was not completed.
        cut: Points beyond the budget, which were left out.
    """

    source: ImportedRun
    numbered: bool
    configuration: Configuration
    points: tuple[Point, ...]
    step: int
    trouble: EarlyEnd | None
    cut: int

    @property
    def spec(self) -> RunSpec:
        """What defines it."""
        assert self.source.seed is not None
        return self.configuration.spec(Phase.TEST, 0, self.source.seed)

    @property
    def content(self) -> str:
        """Sum of everything that was read of it: by this it is known when it is met again."""
        own, trouble = self.source, self.source.trouble
        points = [[p.step, p.returns, p.lengths, p.final] for p in own.points]
        ended = None if trouble is None else [trouble.step, str(trouble.ending), trouble.reason]
        return digest([own.label, own.task, own.seed, str(own.returns), points, ended])


@dataclass(frozen=True, slots=True)
class Settled:
    """An experiment with the runs that were read for it."""

    experiment: Experiment
    runs: tuple[SettledRun, ...]


def settle(
    study: ImportedStudy, asked: Asked, there: Experiment | None, reference: Reference
) -> Settled:
    """Settle seeds, budgets and configurations, together with what was imported before.

    Args:
        study: What was read.
        asked: What the user says of it.
        there: The imported experiment that it is added to.
        reference: Known scores of tasks.

    Raises:
        ConfigError: Nothing was read, or what is asked for does not fit it.
        ProtocolError: Runs cannot stand together; says why.
    """
    runs = _numbered(study.runs, asked.seed)
    _check_apart([run for run, _ in runs])
    by_task: dict[str, list[ImportedRun]] = {}
    for run, _ in runs:
        by_task.setdefault(run.task, []).append(run)
    known = {c.task: c for c in there.configurations} if there else {}
    found: dict[tuple[str, str], Configuration] = {}
    for task, own in by_task.items():
        _check_alike(task, own, known.get(task), study.kind)
        budget, is_binned = budget_of(task, own, asked, known.get(task))
        scores = reference(task)
        for run in own:
            configuration = _configuration(run, study.kind, budget, is_binned, scores)
            _check_same(found.setdefault((run.label, task), configuration), configuration, run)
    for old in there.configurations if there else ():
        new = found.get((old.label, old.task))
        if new is not None and new.fingerprint != old.fingerprint:
            raise ProtocolError(_difference(old, new, f"experiment {asked.name}"))
        found[old.label, old.task] = old
    settled = [_settled(run, found[run.label, run.task], number) for run, number in runs]
    return Settled(_experiment(asked.name, found, settled, there), tuple(settled))


def _numbered(runs: Sequence[ImportedRun], first: int | None) -> list[tuple[ImportedRun, bool]]:
    """Runs with their seeds: those of the source, or numbers in order for each label and task."""
    silent = [run.name for run in runs if run.seed is None]
    if len(runs) == 1 and first is not None:
        return [(replace(runs[0], seed=first), runs[0].seed is None)]
    if not silent:
        if first is not None:
            raise ConfigError("--seed is for sources that name no seeds, and all of these do")
        return [(run, False) for run in runs]
    if len(silent) < len(runs):
        raise ConfigError(
            f"{silent[0]} names no seed, and others do: give those that name none alone, with "
            "--seed N for the first of them"
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
        raise ConfigError("no run was found in what was given")
    seen: dict[tuple[str, str, int | None], ImportedRun] = {}
    for run in runs:
        other = seen.setdefault((run.label, run.task, run.seed), run)
        if other is not run:
            names = [own.name for own in (other, run)]
            if other.name == run.name:
                names = [own.files[0][0] for own in (other, run)]
            raise ProtocolError(
                f"{' and '.join(names)} would both be seed {run.seed} of {run.label} on "
                f"{run.task}: import one of them, or give one another label with --label"
            )


def _check_alike(
    task: str, runs: Sequence[ImportedRun], known: Configuration | None, kind: str
) -> None:
    """Refuse returns that do not measure the same."""
    told = {run.returns: run.name for run in runs}
    if known is not None:
        there = known.algorithm["imported"]
        told.setdefault(Returns(there["returns"]), "what was imported before")
        if there["kind"] != kind:
            raise ProtocolError(
                f"what was imported of {task} before is of kind {there['kind']}, and this is "
                f"{kind}: choose another name with --experiment"
            )
    if len(told) > 1:
        listed = "; ".join(f"{name}: {returns}" for returns, name in told.items())
        raise ProtocolError(
            f"on {task} returns are not of the same ({listed}): choose one series with --metric, "
            "or import them as experiments of their own"
        )


def _configuration(
    run: ImportedRun, kind: str, budget: Budget, is_binned: bool, reference: Mapping[str, Any]
) -> Configuration:
    settings = {"settings": dict(run.settings)} if run.settings else {}
    marked = {"kind": kind, "returns": str(run.returns), "binned": is_binned}
    unknown: dict[str, Any] = {"threads": None, "device": None}
    return Configuration(
        label=run.label,
        task=run.task,
        agent={},
        algorithm={"name": run.label, "imported": marked, **settings},
        environment={"id": run.task},
        reference=reference,
        budget=budget,
        compute=Compute(**unknown),
    )


def _check_same(first: Configuration, other: Configuration, run: ImportedRun) -> None:
    if first.fingerprint != other.fingerprint:
        raise ProtocolError(_difference(first, other, f"{run.name} and runs before it"))


def _difference(first: Configuration, other: Configuration, where: str) -> str:
    differences = leaf_differences(first.algorithm, other.algorithm)
    told = "; ".join(f"{d.path} {d.first!r} and {d.second!r}" for d in differences[:3])
    return (
        f"in {where}, {first.label} on {first.task} does not have one configuration "
        f"({told or 'budgets differ'}): import one of them with another --label"
    )


def _settled(run: ImportedRun, configuration: Configuration, numbered: bool) -> SettledRun:
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
    return SettledRun(
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
    found: Mapping[tuple[str, str], Configuration],
    runs: Sequence[SettledRun],
    there: Experiment | None,
) -> Experiment:
    seeds: dict[str, set[int]] = (
        {fingerprint: set(own) for fingerprint, own in (there.imported or {}).items()}
        if there
        else {}
    )
    for run in runs:
        seeds.setdefault(run.configuration.fingerprint, set()).add(run.spec.seed)
    every = tuple(sorted(set().union(*seeds.values())))
    ordered = sorted(found.values(), key=lambda c: (c.task, c.label))
    return Experiment(
        name=name,
        configurations=tuple(ordered),
        seeds=SeedPlan(root=0, tuning=0, selection=0, test=every),
        failures="missing",
        imported={fingerprint: tuple(sorted(own)) for fingerprint, own in sorted(seeds.items())},
    )
