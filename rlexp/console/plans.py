"""What is about to run, on a few lines."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rlexp.console.words import duration, size
from rlexp.reports.sentences import counted, listed

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
    """Which runs go on from checkpoints, and how large these can become.

    Args:
        plan: With `continued`, steps by runs' names, and `replay_bytes`.
        of: Of how many runs, in words.
    """
    if found := plan["continued"]:
        verb = "continues" if len(found) == 1 else "continue"
        own = f"{len(found):,}{of}" if of else counted(len(found), "run")
        yield f"  {own} {verb} from {_steps(list(found.values()))}"
    if plan["replay_bytes"] > LARGE:
        yield f"  replay buffers in checkpoints: up to {size(plan['replay_bytes'])} a run"


def _steps(steps: Sequence[int]) -> str:
    """Checkpoints by their steps (`checkpoints at steps 40,000 and 60,000`)."""
    own = sorted(set(steps))
    what = "a checkpoint" if len(steps) == 1 else "checkpoints"
    if len(own) > MOST:
        return f"{what} at steps {own[0]:,} to {own[-1]:,}"
    return f"{what} at step{'s' if len(own) > 1 else ''} {listed(f'{step:,}' for step in own)}"
