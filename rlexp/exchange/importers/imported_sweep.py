"""Trials of a search by another tool, and the experiment in which they can be looked at."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any

from rlexp.errors import ConfigError, ProtocolError
from rlexp.exchange.importers.budgets import ImportedExperimentOptions
from rlexp.exchange.importers.imported_study import (
    EarlyEnd,
    EvaluationPoint,
    ImportedRun,
    ReturnKind,
    is_number,
    until_not_finite,
)
from rlexp.exchange.importers.plan import ImportPlan, PlannedImportRun, PlannedTrial
from rlexp.protocol.budget import Budget, Compute
from rlexp.protocol.experiment import Configuration, Experiment
from rlexp.protocol.identity import PLUG_IN
from rlexp.protocol.seeds import MAXIMUM_EVALUATIONS, Phase, SeedPlan
from rlexp.protocol.space import Space
from rlexp.protocol.sweep import LOWEST_SCORE, Sweep, SweepPlan
from rlexp.records.events import Ending, Failure

SEED = 0
"""The seed under which the value of a trial is recorded; the seeds of its runs are not known."""
VALUE = "objective value"
"""What a study optimises, if it does not name its metric."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedTrial:
    """A trial of another tool.

    Attributes:
        number: Its number in the study.
        state: `complete`, `pruned` or `failed`.
        parameters: Its parameters.
        value: Its value; None unless it is complete.
        intermediate: Values that it reported, with their environment steps, by rising step.
        started: Seconds since 1970.
        ended: Seconds since 1970.
    """

    number: int
    state: str
    parameters: Mapping[str, Any]
    value: float | None
    intermediate: tuple[tuple[int, float], ...] = ()
    started: float | None = None
    ended: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedSweep:
    """A search by another tool.

    Attributes:
        kind: The kind of source.
        name: The name of the study.
        task: The task that the user names.
        label: The label that the user names; by default the name of the study.
        metric: What is optimised.
        other_objectives: The names of objectives of the study that are not imported.
        minimised: Whether lower values are better.
        space: The searched parameters.
        trials: The trials that have ended, by number.
        files: Names and sha256 sums of the files that were read.
        left_out: Parts that were not read, a line each.
    """

    kind: str
    name: str
    task: str
    label: str
    metric: str
    minimised: bool
    space: Space
    trials: tuple[SearchedTrial, ...]
    files: tuple[tuple[str, str], ...]
    other_objectives: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def best(self) -> SearchedTrial | None:
        """The complete trial with the best value; None if no trial is complete."""
        complete = [t for t in self.trials if t.value is not None and is_number(t.value)]
        sign = -1 if self.minimised else 1
        return max(complete, key=lambda t: (sign * (t.value or 0.0), -t.number), default=None)


def make_sweep_plan(
    read: ImportedSweep, options: ImportedExperimentOptions, existing: Experiment | None
) -> ImportPlan:
    """The experiment of an imported search: a tuning run for each trial, and no test run.

    Raises:
        ConfigError: The number of environment steps of a trial is not known.
        ProtocolError: The existing experiment is not an import of this search.
    """
    budget = _budget(read, options)
    runs = tuple(_run(trial, number, read, budget) for number, trial in enumerate(read.trials))
    trials = tuple(
        PlannedTrial(
            number=number,
            parameters=trial.parameters,
            steps=budget.steps,
            configuration=run.configuration,
        )
        for number, (trial, run) in enumerate(zip(read.trials, runs, strict=True))
    )
    experiment = Experiment(
        name=options.name,
        configurations=(runs[0].configuration,),
        seeds=SeedPlan(root=0, tuning=(SEED,), selection=(), test=()),
        failures="missing",
        sweep=_sweep(read),
        imported={run.configuration.fingerprint: (SEED,) for run in runs},
    )
    if existing is not None and existing.definition() != experiment.definition():
        raise ProtocolError(
            f"experiment {options.name} holds other results: choose another name with "
            f"--experiment, or remove it with 'rlexp rm {options.name} --yes'; nothing was imported"
        )
    return ImportPlan(experiment, runs, trials)


def _budget(read: ImportedSweep, options: ImportedExperimentOptions) -> Budget:
    if options.score is not None or options.seed is not None:
        option = "score" if options.score is not None else "seed"
        raise ConfigError(
            f"--{option} is for runs, and {read.kind} holds trials with one value each: leave it out"
        )
    reported = sorted({step for trial in read.trials for step, _ in trial.intermediate if step})
    steps = options.steps or (reported[-1] if reported else 0)
    if steps < 1:
        raise ConfigError(
            f"the study {read.name} does not say how many environment steps a trial has: give "
            "--steps N"
        )
    every = gcd(*reported) if reported else None
    if every is not None and steps // every > MAXIMUM_EVALUATIONS:
        every = -(-steps // MAXIMUM_EVALUATIONS)
    fields: dict[str, Any] = {
        "steps": steps,
        "evaluation_every": every,
        "evaluation_episodes": None,
        "evaluation_deterministic": None,
        "final_episodes": None,
        "score": "final",
    }
    return Budget(**fields)


def _sweep(read: ImportedSweep) -> Sweep:
    # Studies record neither the sampler nor the pruner.
    unknown = {PLUG_IN: {"group": "tuner", "name": "not known", "version": 1}}
    return Sweep(
        name=read.name,
        space=read.space,
        tuner=unknown,
        pruner={PLUG_IN: {"group": "pruner", "name": "not known", "version": 1}},
        plan=SweepPlan(
            trials=len(read.trials),
            full_runs=None,
            steps=None,
            hours=None,
            allocation="fixed",
            promoted=1.0,
            objective=(LOWEST_SCORE,) if read.minimised else ("score",),
            aggregate="mean",
            finalists=1,
            lag=None,
            failures="worst",
            stop_after=len(read.trials) + 2,
            storage=None,
        ),
    )


def _run(
    trial: SearchedTrial, number: int, read: ImportedSweep, budget: Budget
) -> PlannedImportRun:
    points = [
        EvaluationPoint(step=step, returns=(value,))
        for step, value in trial.intermediate
        if step <= budget.steps and is_number(value)
    ]
    if trial.value is not None:
        points.append(EvaluationPoint(step=budget.steps, returns=(trial.value,), final=True))
    kept, trouble = until_not_finite(tuple(points))
    source = ImportedRun(
        name=f"trial {trial.number}",
        label=read.label,
        task=read.task,
        seed=SEED,
        points=kept,
        returns=ReturnKind.OBJECTIVE,
        files=read.files,
        details={"study": read.name, "trial": trial.number, "state": trial.state},
        started=trial.started,
        trouble=trouble or _ending(trial, kept),
        metric=read.metric,
    )
    return PlannedImportRun(
        source=source,
        numbered=True,
        configuration=_configuration(trial, number, read, budget),
        points=kept,
        step=kept[-1].step if kept else 0,
        trouble=source.trouble,
        cut=len(trial.intermediate) + (trial.value is not None) - len(points),
        phase=Phase.TUNING,
    )


def _ending(trial: SearchedTrial, points: Sequence[EvaluationPoint]) -> EarlyEnd | None:
    step = points[-1].step if points else 0
    match trial.state:
        case "pruned":
            return EarlyEnd(step=step, ending=Ending.PRUNED, reason="Optuna says PRUNED")
        case "failed":
            return EarlyEnd(
                step=step, ending=Ending.FAILED, reason="Optuna says FAIL", failure=Failure.USER
            )
    return None


def _configuration(
    trial: SearchedTrial, number: int, read: ImportedSweep, budget: Budget
) -> Configuration:
    # The number distinguishes trials with equal parameters, whose values differ by chance.
    imported = {
        "kind": read.kind,
        "returns": str(ReturnKind.OBJECTIVE),
        "binned": False,
        "metric": read.metric,
        "trial": number,
    }
    unknown: dict[str, Any] = {"threads": None, "device": None}
    settings = {"settings": dict(trial.parameters)} if trial.parameters else {}
    return Configuration(
        # Each trial has a label of its own, as in a sweep of rlexp.
        label=f"trial {number}",
        task=read.task,
        agent={},
        algorithm={"name": read.label, "imported": imported, **settings},
        environment={"id": read.task},
        # Known scores of a task are returns of an agent, which an objective need not be.
        reference={},
        budget=budget,
        compute=Compute(**unknown),
    )
