"""What is about to run, on a few lines."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rlexp.reports.past import several
from rlexp.reports.sentences import counted, listed
from rlexp.text import duration, size

LARGE = 100_000_000
"""Bytes of a replay buffer from which on a plan says that checkpoints hold it."""
MOST = 4
"""Steps that are told one by one."""


def run_plan_lines(plan: Mapping[str, Any]) -> Iterator[str]:
    """What a command is about to run."""
    done = f", {plan['done']} done already" if plan["done"] else ""
    failed = f", {plan['failed']} failed for good (--retry tries again)" if plan["failed"] else ""
    yield f"{plan['experiment']} · {plan['phase']} phase{done}{failed}"
    if not plan["runs"]:
        yield "  nothing to run"
        return
    each = " or ".join(f"{steps:,}" for steps in plan["steps_per_run"])
    guess = "estimated" if plan["measured"] else "roughly"
    yield (
        f"  {counted(plan['runs'], 'run')} × {each} environment steps"
        f" · {counted(plan['workers'], 'worker')} × {counted(plan['threads'], 'thread')}"
        f" · {guess} {duration(plan['seconds'])}, {size(plan['bytes'])}"
        f" · {plan['code']}"
    )
    yield from checkpoint_lines(plan, f" of {counted(plan['runs'], 'run')}")


def checkpoint_lines(plan: Mapping[str, Any], of: str = "") -> Iterator[str]:
    """Which runs go on from checkpoints, which do not, and how large checkpoints can become.

    Args:
        plan: With `replay_bytes`, `allow_drift`, and by runs' names `continued`, `drifts`, `anew`.
        of: Of how many runs, in words.
    """
    if found := plan["continued"]:
        what = "continues from a checkpoint" if len(found) == 1 else "continue from checkpoints"
        yield f"  {_runs(len(found), of)} {what} at {_steps(found.values())}"
    if drifts := plan["drifts"]:
        verb = "continues" if len(drifts) == 1 else "continue"
        yield f"  {_runs(len(drifts), of)} {verb} with other versions: {_why(drifts.values())}"
    if anew := plan["anew"]:
        yield f"  {_runs(len(anew), of)} {_anew(list(anew.values()))}"
    if plan["allow_drift"]:
        yield f"  to continue all the same: {plan['allow_drift']}"
    if plan["replay_bytes"] > LARGE:
        yield f"  replay buffers in checkpoints: up to {size(plan['replay_bytes'])} a run"


def _runs(count: int, of: str) -> str:
    return f"{count:,}{of}" if of else counted(count, "run")


def _anew(refused: list[Mapping[str, Any]]) -> str:
    """What becomes of runs whose checkpoints, each with its `step` and a `reason`, are refused."""
    steps, why = _steps(r["step"] for r in refused), _why(r["reason"] for r in refused)
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
