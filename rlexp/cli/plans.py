"""Plans of runs and sweeps as lines."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rlexp.app.plans import (
    POPULATIONS,
    ExecutionEstimate,
    RefusedCell,
    RefusedCheckpoint,
    RunPlan,
    StartingPoints,
    SweepOutline,
)
from rlexp.protocol.units import unit_text
from rlexp.reports.evidence.restarts import first_reasons
from rlexp.text import format_bytes, format_count, format_duration, join_first_names, join_names

LARGE = 100_000_000
"""Size of a replay buffer, in bytes, from which on the plan prints it."""
MOST_STEPS = 4
"""Longest list of steps that is printed in full."""


def run_plan_lines(plan: RunPlan) -> Iterator[str]:
    """The plan of one phase of an experiment."""
    done = f", {plan.done} already done" if plan.done else ""
    failed = f", {plan.failed} failed (add --retry to repeat them)" if plan.failed else ""
    yield f"{plan.experiment} · {plan.phase} phase{done}{failed}"
    if not plan.runs:
        yield "  nothing to run"
        yield from refused_lines(plan.refused)
        return
    each = " or ".join(f"{steps:,}" for steps in plan.steps_per_run)
    yield f"  {format_count(plan.runs, 'run')} × {each} {unit_text(plan.unit)} · {_expected(plan)}"
    yield from _offline_line(plan.offline_steps_per_run)
    if plan.protocol:
        yield f"  {plan.protocol}"
    yield from checkpoint_lines(plan.beginnings, f" of {format_count(plan.runs, 'run')}")
    if plan.kept_replay_bytes:
        size = format_bytes(plan.kept_replay_bytes)
        yield f"  replay buffers that stay on disk (budget.keep_last): up to {size}"
    yield from (f"  {remark}" for remark in plan.remarks)
    if plan.reach:
        yield f"  {plan.reach}"
    if plan.looks:
        yield f"  {plan.looks}"
    yield from refused_lines(plan.refused)


def _offline_line(steps: Sequence[int]) -> Iterator[str]:
    """The offline stage of runs that start from a dataset."""
    if steps:
        numbers = " or ".join(f"{number:,}" for number in steps)
        yield f"  offline stage: {numbers} gradient steps on the dataset before each run's first step"


def refused_lines(refused: Sequence[RefusedCell]) -> Iterator[str]:
    """The configurations that cannot be trained, and why."""
    if refused:
        count = format_count(len(refused), "configuration")
        yield f"  cannot be trained, and not counted above: {count}"
    for cell in refused:
        yield f"    {cell.label} on {cell.task}: {cell.reason}"


OBJECTIVES_OF_TASKS = {"anchors": "normalised score", "ranks": "rank"}
"""What the trials of a sweep on several tasks are compared by, for each normalisation."""


def sweep_plan_lines(plan: SweepOutline) -> Iterator[str]:
    """The plan of a sweep."""
    stage = "" if not plan.trials_ended else f", {plan.trials_ended} already done"
    yield (
        f"{plan.experiment} · {plan.algorithm} on {plan.task} · "
        f"{plan.limits or format_count(plan.trials, 'trial')} by {plan.tuner}{stage}"
    )
    pruner = "" if plan.pruner == "none" else f" · pruner {plan.pruner}"
    yield (
        f"  searches {format_count(len(plan.parameters), 'parameter')}: "
        f"{join_first_names(plan.parameters, 4)}{pruner}"
    )
    if plan.enqueued:
        yield f"  tries {format_count(plan.enqueued, 'given configuration')} first"
    yield f"  {_seeds_in_words(plan)}"
    if plan.continuation is not None:
        yield f"  {plan.continuation}"
    yield f"  at most {_amount(plan)} · {_expected(plan)}"
    yield from _offline_line((plan.offline_steps,) if plan.offline_steps else ())
    yield from checkpoint_lines(plan.beginnings)


def _amount(plan: SweepOutline) -> str:
    """The number of runs that are still to come, and their environment steps."""
    if plan.population_runs is None:
        return f"{format_count(plan.runs, 'run')} × {plan.steps_per_run:,} {unit_text(plan.unit)}"
    whole = format_count(plan.runs, "whole run")
    return (
        f"{format_count(plan.population_runs, 'run')} with as many {unit_text(plan.unit)} as {whole} of "
        f"{plan.steps_per_run:,}"
    )


def _expected(plan: ExecutionEstimate) -> str:
    """Workers, expected time and disk space, and the commit."""
    batch = f" × {plan.batch} runs together" if plan.batch > 1 else ""
    return (
        f"{format_count(plan.workers, 'worker')}{batch} × {format_count(plan.threads, 'thread')}"
        f" · {_duration(plan)}, {format_bytes(plan.bytes)} · {plan.code}"
    )


def _duration(plan: ExecutionEstimate) -> str:
    """The expected time; a measured one with its range."""
    expected = format_duration(plan.seconds)
    if not plan.measured or plan.seconds_low is None or plan.seconds_high is None:
        # A first guess knows neither the task nor the machine.
        return f"roughly {expected}"
    low, high = format_duration(plan.seconds_low), format_duration(plan.seconds_high)
    return f"estimated {expected}" + (f" ({low} to {high})" if low != high else "")


def _seeds_in_words(plan: SweepOutline) -> str:
    """The seeds that each stage uses."""
    count = len(plan.tasks)
    on_tasks = f" of each of {count} tasks" if count > 1 else ""
    tuning = f"{format_count(plan.tuning_seeds, 'tuning seed')}{on_tasks}"
    if plan.promoted:
        episodes = plan.screening_episodes
        fewer = f" with {format_count(episodes, 'final episode')}" if episodes else ""
        first = f" on {join_names(plan.tasks[: plan.screening_tasks])}" if count > 1 else ""
        best = f"the best {plan.promoted} on all {plan.tuning_seeds}{on_tasks}"
        search = f"1 tuning seed each{first}{fewer}, {best}"
    elif plan.allocation == "racing":
        search = f"up to {tuning} each, one at a time (racing)"
    else:
        search = f"{tuning} each"
    selection = format_count(plan.selection_seeds, "selection seed")
    chosen = (
        f"{format_count(plan.finalists, 'finalist')} on {selection}"
        if plan.selection_seeds
        else "the best trial wins"
    )
    seeds = plan.test_seeds
    # The best schedule and the best fixed configuration of a population are tested, too.
    winner = "winner, rival" if plan.tuner in POPULATIONS else "winner"
    winner = f"front of at most {plan.finalists}" if len(plan.objective) > 1 else winner
    tests = (
        f"{winner} and default on {format_count(seeds, 'test seed')}{on_tasks}"
        if seeds
        else "no test seeds"
    )
    measured = OBJECTIVES_OF_TASKS.get(plan.normalisation or "", join_names(plan.objective))
    return f"{search} · {chosen} · {tests} · by {plan.aggregate} {measured}"


def checkpoint_lines(beginnings: StartingPoints, of: str = "") -> Iterator[str]:
    """Runs that continue from checkpoints, runs that start from step 0, and replay buffer sizes.

    Args:
        beginnings: How the runs begin that have checkpoints.
        of: The text after a number of runs (` of 3 runs`).
    """
    if continued := beginnings.continued:
        what = (
            "continues from a checkpoint" if len(continued) == 1 else "continue from checkpoints"
        )
        yield f"  {_runs(len(continued), of)} {what} at {_steps(continued.values())}"
    if drifts := beginnings.drifts:
        verb = "continues" if len(drifts) == 1 else "continue"
        reasons = [reason or "" for reason in drifts.values()]
        yield f"  {_runs(len(drifts), of)} {verb} with other versions: {_why(reasons)}"
    if anew := beginnings.anew:
        yield f"  {_runs(len(anew), of)} {_anew(list(anew.values()))}"
    if beginnings.allow_drift:
        yield f"  to continue from these checkpoints anyway: {beginnings.allow_drift}"
    if beginnings.replay_bytes > LARGE:
        yield f"  replay buffers in checkpoints: up to {format_bytes(beginnings.replay_bytes)} per run"
    if beginnings.rewritten_bytes:
        size = format_bytes(beginnings.rewritten_bytes)
        yield f"  written again by replay at each checkpoint: up to {size} per run"


def _runs(count: int, of: str) -> str:
    return f"{count:,}{of}" if of else format_count(count, "run")


def _anew(refused: Sequence[RefusedCheckpoint]) -> str:
    """The text for runs that start from step 0 because their checkpoints were refused."""
    steps, why = _steps(r.step for r in refused), _why(r.reason or "" for r in refused)
    if len(refused) == 1:
        return f"starts from step 0, because its checkpoint at {steps} was refused: {why}"
    return f"start from step 0, because their checkpoints at {steps} were refused: {why}"


def _why(reasons: Iterable[str]) -> str:
    """The reasons, the most frequent first."""
    return first_reasons([reason for reason, _ in Counter(reasons).most_common()])


def _steps(steps: Iterable[int]) -> str:
    """The distinct steps as text (`steps 40,000 and 60,000`)."""
    distinct = sorted(set(steps))
    if len(distinct) > MOST_STEPS:
        return f"steps {distinct[0]:,} to {distinct[-1]:,}"
    return f"step{'s' if len(distinct) > 1 else ''} {join_names(f'{step:,}' for step in distinct)}"
