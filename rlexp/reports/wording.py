"""Numbers of things, lists of names, scores and states of runs in words."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rlexp.records.run import State
from rlexp.reports.evidence import Member


def counted(number: int, thing: str) -> str:
    """A number of things (`1 run`, `3,000 runs`)."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def listed(names: Iterable[str]) -> str:
    """Names in a sentence (`a, b and c`), in the order given."""
    own = list(names)
    return " and ".join([", ".join(own[:-1]), own[-1]]) if len(own) > 1 else "".join(own)


def shortened(names: Sequence[str], most: int = 10) -> str:
    """Names in a sentence, and how many more there are (`a, b and 7 more`)."""
    if len(names) <= most:
        return listed(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"


def numbers(values: Iterable[int]) -> str:
    """Whole numbers, successive ones by their ends (`0–4, 7`)."""
    told: list[list[int]] = []
    for value in sorted(set(values)):
        if told and value == told[-1][-1] + 1:
            told[-1] = [told[-1][0], value]
        else:
            told.append([value])
    return ", ".join("–".join(map(str, ends)) for ends in told)


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
            episodes = counted(budget["final_episodes"], "fresh episode")
            return f"the mean return of the final policy over {episodes}"
        case "auc":
            return "the mean height of the curve of evaluations during training"
        case _:
            return "the mean return of the evaluations in the last tenth of training"
