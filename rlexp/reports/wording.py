"""Scores and states of runs in words."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from rlexp.records.run import State
from rlexp.reports.evidence.runs import Member
from rlexp.reports.sentences import counted


def state(member: Member) -> str:
    """Where a run stands (`failed (nan)`), damage and scores that are no number included."""
    record = member.record
    if member.problem and record.attempts == 0:
        return "unreadable"
    if record.state is State.COMPLETED and member.score is None:
        return "completed without a finite score"
    return f"failed ({record.failure})" if record.failure else str(record.state)


def states(members: Iterable[Member]) -> str:
    """How many runs are in which state (`2 failed (nan), 1 planned`), by name of the state."""
    counts = Counter(state(member) for member in members)
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))


def score_in_words(budget: Mapping[str, Any]) -> str:
    """What the score of a run is, as its budget declares it."""
    match budget["score"]:
        case "final":
            count = budget["final_episodes"]
            # Of imported means it is not known how many episodes they are of.
            episodes = counted(count, "fresh episode") if count else "fresh episodes"
            return f"the mean return of the final policy over {episodes}"
        case "auc":
            return "the mean height of the curve of evaluations during training"
        case _:
            return "the mean return of the evaluations in the last tenth of training"
