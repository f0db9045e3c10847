"""What ends a search before its last trial: full-run equivalents, environment steps, hours."""

from collections.abc import Sequence
from math import ceil

from rlexp.engine.progress import Progress, steps_of
from rlexp.engine.question import Question


def is_reached(question: Question, entries: Sequence[Progress], known: int, hours: float) -> bool:
    """Whether a limit keeps a further trial from being suggested.

    Args:
        question: Which limits there are.
        entries: The trials so far.
        known: How many of the first of them the further one may depend on. Those count with the
            steps that they took, and all others with the steps that were planned for them.
        hours: Wall-clock that the search has taken.
    """
    plan = question.plan
    return (
        (plan.full_runs is not None and full_runs(question, entries) >= plan.full_runs)
        or (plan.steps is not None and _steps_with_another(question, entries, known) > plan.steps)
        or (plan.hours is not None and hours >= plan.hours)
    )


def full_runs(question: Question, entries: Sequence[Progress]) -> float:
    """Full-run equivalents so far: configurations at their fidelity, whatever their seeds."""
    return sum(e.proposal.steps for e in entries) / question.steps


def promotions(question: Question, screened: int) -> int:
    """How many trials go on from their first tuning seed to all of them.

    A share of the full-run equivalents that screening took, so that what pruning saves there is
    spent where it decides. None go on where trials are run on all seeds from the start.

    Args:
        question: With the share.
        screened: Environment steps of all trials on their first seed.
    """
    if question.screening == question.seeds:
        return 0
    share = question.plan.promoted * screened / question.steps
    # One more would come of rounding alone: 0.07 × 100 is a little above 7.
    return max(ceil(share - 1e-9), 1)


def _steps_with_another(question: Question, entries: Sequence[Progress], known: int) -> int:
    """Environment steps of the trials so far and of one more, those of promotion included."""
    spent = sum(map(steps_of, entries[:known]))
    planned = sum(e.proposal.steps for e in entries[known:] if e.twin is None)
    screened = spent + question.screening * (planned + question.steps)
    further = promotions(question, screened) * (question.seeds - question.screening)
    return screened + further * question.steps
