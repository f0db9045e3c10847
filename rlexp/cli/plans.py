"""Plans of runs and sweeps as lines."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rlexp.app.plans import (
    Beginnings,
    Expectation,
    RefusedCheckpoint,
    RunPlan,
    SweepOutline,
)
from rlexp.reports.evidence.restarts import several
from rlexp.text import counted, duration, listed, shortened, size

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
        return
    each = " or ".join(f"{steps:,}" for steps in plan.steps_per_run)
    yield f"  {counted(plan.runs, 'run')} × {each} environment steps · {_expected(plan)}"
    yield from checkpoint_lines(plan.beginnings, f" of {counted(plan.runs, 'run')}")


def sweep_plan_lines(plan: SweepOutline) -> Iterator[str]:
    """The plan of a sweep."""
    stage = "" if not plan.trials_ended else f", {plan.trials_ended} already done"
    yield (
        f"{plan.experiment} · {plan.algorithm} on {plan.task} · "
        f"{plan.limits or counted(plan.trials, 'trial')} by {plan.tuner}{stage}"
    )
    pruner = "" if plan.pruner == "none" else f" · pruner {plan.pruner}"
    yield (
        f"  searches {counted(len(plan.parameters), 'parameter')}: "
        f"{shortened(plan.parameters, 4)}{pruner}"
    )
    yield f"  {_seeds_in_words(plan)}"
    yield (
        f"  at most {counted(plan.runs, 'run')} × {plan.steps_per_run:,} environment steps"
        f" · {_expected(plan)}"
    )
    yield from checkpoint_lines(plan.beginnings)


def _expected(plan: Expectation) -> str:
    """Workers, expected time and disk space, and the commit."""
    # Without earlier runs of the same kind, the expectation is only an order of magnitude.
    guess = "estimated" if plan.measured else "roughly"
    return (
        f"{counted(plan.workers, 'worker')} × {counted(plan.threads, 'thread')}"
        f" · {guess} {duration(plan.seconds)}, {size(plan.bytes)} · {plan.code}"
    )


def _seeds_in_words(plan: SweepOutline) -> str:
    """The seeds that each stage uses."""
    tuning = counted(plan.tuning_seeds, "tuning seed")
    if plan.screening_seeds < plan.tuning_seeds:
        search = f"1 tuning seed each, the best {plan.promoted} on all {plan.tuning_seeds}"
    elif plan.allocation == "racing":
        search = f"up to {tuning} each, one at a time (racing)"
    else:
        search = f"{tuning} each"
    selection = counted(plan.selection_seeds, "selection seed")
    chosen = (
        f"{counted(plan.finalists, 'finalist')} on {selection}"
        if plan.selection_seeds
        else "the best trial wins"
    )
    seeds = plan.test_seeds
    tests = f"winner and default on {counted(seeds, 'test seed')}" if seeds else "no test seeds"
    return f"{search} · {chosen} · {tests} · by {plan.aggregate} {listed(plan.objective)}"


def checkpoint_lines(beginnings: Beginnings, of: str = "") -> Iterator[str]:
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
        yield f"  replay buffers in checkpoints: up to {size(beginnings.replay_bytes)} per run"


def _runs(count: int, of: str) -> str:
    return f"{count:,}{of}" if of else counted(count, "run")


def _anew(refused: Sequence[RefusedCheckpoint]) -> str:
    """The text for runs that start from step 0 because their checkpoints were refused."""
    steps, why = _steps(r.step for r in refused), _why(r.reason or "" for r in refused)
    if len(refused) == 1:
        return f"starts from step 0, because its checkpoint at {steps} was refused: {why}"
    return f"start from step 0, because their checkpoints at {steps} were refused: {why}"


def _why(reasons: Iterable[str]) -> str:
    """The reasons, the most frequent first."""
    return several([reason for reason, _ in Counter(reasons).most_common()])


def _steps(steps: Iterable[int]) -> str:
    """The distinct steps as text (`steps 40,000 and 60,000`)."""
    distinct = sorted(set(steps))
    if len(distinct) > MOST_STEPS:
        return f"steps {distinct[0]:,} to {distinct[-1]:,}"
    return f"step{'s' if len(distinct) > 1 else ''} {listed(f'{step:,}' for step in distinct)}"
