"""What is about to run, on a few lines."""

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
"""Bytes of a replay buffer from which on a plan says that checkpoints hold it."""
MOST = 4
"""Steps that are told one by one."""


def run_plan_lines(plan: RunPlan) -> Iterator[str]:
    """What a command is about to run."""
    done = f", {plan.done} done already" if plan.done else ""
    failed = f", {plan.failed} failed for good (--retry tries again)" if plan.failed else ""
    yield f"{plan.experiment} · {plan.phase} phase{done}{failed}"
    if not plan.runs:
        yield "  nothing to run"
        return
    each = " or ".join(f"{steps:,}" for steps in plan.steps_per_run)
    yield f"  {counted(plan.runs, 'run')} × {each} environment steps · {_expected(plan)}"
    yield from checkpoint_lines(plan.beginnings, f" of {counted(plan.runs, 'run')}")


def sweep_plan_lines(plan: SweepOutline) -> Iterator[str]:
    """What a sweep is about to do, on a few lines."""
    stage = "" if not plan.trials_ended else f", {plan.trials_ended} trials done already"
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
    """Workers, and the expected time and disk space."""
    guess = "estimated" if plan.measured else "roughly"
    return (
        f"{counted(plan.workers, 'worker')} × {counted(plan.threads, 'thread')}"
        f" · {guess} {duration(plan.seconds)}, {size(plan.bytes)} · {plan.code}"
    )


def _seeds_in_words(plan: SweepOutline) -> str:
    """Which runs each stage makes."""
    tuning = counted(plan.tuning_seeds, "tuning seed")
    if plan.screening_seeds < plan.tuning_seeds:
        search = f"1 tuning seed each, the best {plan.promoted} on all {plan.tuning_seeds}"
    elif plan.allocation == "racing":
        search = f"{tuning} each, one by one, as long as a trial keeps up"
    else:
        search = f"{tuning} each"
    selection = counted(plan.selection_seeds, "selection seed")
    chosen = (
        f"{counted(plan.finalists, 'finalist')} on {selection}"
        if plan.selection_seeds
        else "the best is the winner"
    )
    seeds = plan.test_seeds
    tests = f"winner and default on {counted(seeds, 'test seed')}" if seeds else "no test"
    return f"{search} · {chosen} · {tests} · by {plan.aggregate} {listed(plan.objective)}"


def checkpoint_lines(beginnings: Beginnings, of: str = "") -> Iterator[str]:
    """Which runs continue from checkpoints, which do not, and how large checkpoints can become.

    Args:
        beginnings: How the runs begin that have checkpoints.
        of: Of how many runs, in words.
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
        yield f"  to continue all the same: {beginnings.allow_drift}"
    if beginnings.replay_bytes > LARGE:
        yield f"  replay buffers in checkpoints: up to {size(beginnings.replay_bytes)} a run"


def _runs(count: int, of: str) -> str:
    return f"{count:,}{of}" if of else counted(count, "run")


def _anew(refused: Sequence[RefusedCheckpoint]) -> str:
    """What becomes of runs whose checkpoints are refused."""
    steps, why = _steps(r.step for r in refused), _why(r.reason or "" for r in refused)
    if len(refused) == 1:
        return f"begins anew, its checkpoint at {steps} is not continued from: {why}"
    return f"begin anew, their checkpoints at {steps} are not continued from: {why}"


def _why(reasons: Iterable[str]) -> str:
    """Reasons, the commonest first."""
    return several([reason for reason, _ in Counter(reasons).most_common()])


def _steps(steps: Iterable[int]) -> str:
    """Steps, each once (`steps 40,000 and 60,000`)."""
    own = sorted(set(steps))
    if len(own) > MOST:
        return f"steps {own[0]:,} to {own[-1]:,}"
    return f"step{'s' if len(own) > 1 else ''} {listed(f'{step:,}' for step in own)}"
