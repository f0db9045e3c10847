"""The plan of a sweep: its search, tuner and seeds, the runs that are left, and what they cost."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from rlexp.app.execution.checkpoints import (
    RunBeginning,
    describe_beginnings,
    find_beginnings,
    largest_replay_buffer,
    largest_rewritten_part,
    steps_done,
)
from rlexp.app.execution.estimate import Rates, estimate_cost
from rlexp.app.execution.launch_settings import LaunchSettings
from rlexp.app.execution.probes import Costs
from rlexp.app.plans import SweepOutline
from rlexp.app.sweeps.continuation import describe_continuation
from rlexp.app.sweeps.progress import (
    count_promotions,
    expected_runs,
    population_runs,
    remaining_runs,
)
from rlexp.app.workspace import Workspace
from rlexp.engine.sweep_source import SweepSource
from rlexp.errors import RlexpError
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.identity import canonical, short_name
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.protocol.sweep import SweepPlan
from rlexp.protocol.units import in_units
from rlexp.store.layout import ExperimentPaths
from rlexp.store.provenance import Code
from rlexp.store.runs import read_spec
from rlexp.text import format_score


def outline_of(
    paths: ExperimentPaths,
    experiment: Experiment,
    sweeping: SweepSource,
    launch: LaunchSettings,
    code: Code,
    costs: Costs,
    workspace: Workspace,
) -> SweepOutline:
    """The plan of a sweep: search, tuner, seeds, and the maximum number of runs."""
    definition, default = experiment.sweep, experiment.default
    assert definition is not None
    plan, question = definition.plan, sweeping.search.question
    promoted, finalists = count_promotions(sweeping)
    begun = find_beginnings(paths, begun_runs(paths, sweeping), allow_drift=launch.allow_drift)
    return SweepOutline(
        experiment=experiment.name,
        stage=str(sweeping.stage),
        algorithm=short_name(default.algorithm),
        task=", ".join(c.task for c in experiment.defaults),
        tuner=short_name(definition.tuner),
        pruner=short_name(definition.pruner),
        parameters=tuple(definition.space.keys),
        trials=plan.trials,
        trials_ended=sum(1 for e in sweeping.search.entries if e.trial is not None),
        enqueued=len(question.given),
        allocation=plan.allocation,
        tasks=tuple(c.task for c in experiment.defaults),
        normalisation=plan.normalisation,
        screening_tasks=min(question.screening, question.tasks),
        screening_seeds=question.screened_seeds,
        screening_episodes=plan.screening_episodes,
        tuning_seeds=question.seeds,
        promoted=promoted,
        finalists=finalists,
        selection_seeds=len(experiment.seeds.seeds(Phase.SELECTION)),
        test_seeds=len(experiment.seeds.seeds(Phase.TEST)),
        objective=tuple(plan.objectives),
        aggregate=plan.aggregate,
        lag=plan.lag,
        limits=in_units(_limits(plan), experiment.default.unit),
        continuation=describe_continuation(experiment, workspace),
        runs=remaining_runs(sweeping),
        steps_per_run=question.steps,
        unit=experiment.default.unit,
        offline_steps=experiment.default.spec(
            Phase.TUNING, experiment.seeds.root, 0
        ).offline_steps,
        population_runs=population_runs(sweeping),
        threads=launch.threads,
        code=str(code),
        **_expected(experiment, sweeping, launch, costs, begun),
    )


def _expected(
    experiment: Experiment,
    sweeping: SweepSource,
    launch: LaunchSettings,
    costs: Costs,
    begun: Mapping[str, RunBeginning],
) -> dict[str, Any]:
    """What the rest of a sweep costs, and where its runs begin, as fields of the plan."""
    workers = launch.executor.workers_for(launch.threads)
    first = [c.spec(Phase.TUNING, experiment.seeds.root, 0) for c in experiment.defaults]
    replay = largest_replay_buffer(first, costs.spaces)
    specs = expected_runs(experiment.defaults, sweeping)
    # The estimate is for equal runs, so the steps saved by checkpoints are shared among all.
    saved = dict.fromkeys((s.name for s in specs), sum(steps_done(begun).values()) // len(specs))
    expected = estimate_cost(
        specs,
        workers,
        rates=_rates(first, specs, costs),
        continued=saved,
        replay=replay,
        load=costs.load,
    )
    beginnings = describe_beginnings(
        begun, launch.with_drift, replay, largest_rewritten_part(first)
    )
    places = {"workers": workers, "batch": first[0].batch}
    return {**places, "beginnings": beginnings, **expected.of_plan()}


def _rates(first: Sequence[RunSpec], specs: Sequence[RunSpec], costs: Costs) -> dict[str, Rates]:
    """The rates of the runs, by fingerprint: those of the first run on the same task.

    What a run costs does not depend on the number of its final episodes.
    """
    by_task = {canonical(spec.environment): spec.fingerprint for spec in first}
    return {
        each.fingerprint: costs.rates[by_task[canonical(each.environment)]]
        for each in specs
        if costs.rates
    }


def begun_runs(paths: ExperimentPaths, sweeping: SweepSource) -> Iterator[RunSpec]:
    """The specifications of runs that have started and not ended."""
    ended = {record.spec.name for record in sweeping.records.values()}
    for run in paths.runs():
        if run.folder.name not in ended:
            with suppress(RlexpError):
                spec = read_spec(run)
                # A copied folder would count the checkpoint of another run.
                if _is_well_formed(spec) and spec.name == run.folder.name:
                    yield spec


def _is_well_formed(spec: RunSpec) -> bool:
    """Whether the parts of a specification are mappings; a folder in `runs/` may hold any JSON."""
    parts = (spec.agent, spec.algorithm, spec.environment, spec.compute)
    return all(isinstance(part, Mapping) for part in parts)


def _limits(plan: SweepPlan) -> str:
    """The limits of the search other than the number of trials, as text."""
    limits = []
    if plan.full_runs is not None:
        limits.append(f"{plan.full_runs:g} full runs")
    if plan.steps is not None:
        limits.append(f"{plan.steps:,} environment steps")
    if plan.hours is not None:
        limits.append(f"{plan.hours:g} h")
    text = f"at most {plan.trials:,} trials, {' and '.join(limits)}" if limits else ""
    if plan.stop_at_regret is None:
        return text
    trials = text or f"at most {plan.trials:,} trials"
    return f"{trials}, until more gain at most {format_score(plan.stop_at_regret)},"
