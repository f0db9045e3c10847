"""Final episodes of a run, on what was held out from training and on what it was trained on."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlexp.records.events import Evaluated, Examined
from rlexp.records.run import LARGEST_SCORE, State
from rlexp.reports.evidence.runs import Cell, Evidence, Member

CONTEXT = "context/"
"""What names of measures begin with that say which context an episode was played in."""
IN_DISTRIBUTION = "in_distribution"

Final = Evaluated | Examined
"""Episodes of the final policy."""


@dataclass(frozen=True, slots=True)
class FinalEpisodes:
    """A completed run with a final evaluation, and an examination in distribution if it has one."""

    member: Member
    held_out: Evaluated
    in_distribution: Examined | None


def final_episodes(cell: Cell) -> list[FinalEpisodes]:
    """The runs of a cell that completed with returns that numbers can be made of, by their seed."""
    found = []
    for member in cell.members:
        record = member.record
        if record.state is State.COMPLETED and record.final and _is_plain(record.final):
            found.append(FinalEpisodes(member, record.final, _examined(member)))
    return found


def context_names(events: Iterable[Final]) -> tuple[str, ...]:
    """Parameters of the contexts that episodes were played in, in order of their names."""
    names = {name for event in events for name in event.measures or {}}
    return tuple(sorted(n.removeprefix(CONTEXT) for n in names if n.startswith(CONTEXT)))


def measure_names(events: Iterable[Final]) -> set[str]:
    """Whatever else was measured of them."""
    names = {name for event in events for name in event.measures or {}}
    return {name for name in names if not name.startswith(CONTEXT)}


def measured(event: Final | None, name: str) -> NDArray[np.float64]:
    """A measure of every episode that has it, of shape (episodes,)."""
    values = np.asarray(((event and event.measures) or {}).get(name, ()), dtype=np.float64)
    plain: NDArray[np.float64] = values[np.abs(values) <= LARGEST_SCORE]
    return plain


def mean_return(event: Final) -> float:
    """Mean return over the episodes."""
    return math.fsum(event.returns) / len(event.returns)


def has_contexts(evidence: Evidence) -> bool:
    """Whether a run says which contexts its final episodes were played in."""
    return any(
        name.startswith(CONTEXT)
        for member in evidence.members
        if member.record.final
        for name in member.record.final.measures or {}
    )


def is_examined(evidence: Evidence) -> bool:
    """Whether the final policy of a run was played on what it was trained on, too."""
    return any(_examined(member) for member in evidence.members)


def has_measures(evidence: Evidence) -> bool:
    """Whether a run measures anything but contexts."""
    return any(measure_names(_events(member)) for member in evidence.members)


def everything(runs: Iterable[FinalEpisodes]) -> list[Final]:
    """The final evaluations and examinations of runs."""
    return [event for run in runs for event in _events(run.member)]


def _events(member: Member) -> list[Final]:
    found: list[Final | None] = [member.record.final, _examined(member)]
    return [event for event in found if event is not None]


def _examined(member: Member) -> Examined | None:
    own = [e for e in member.record.examinations if e.distribution == IN_DISTRIBUTION]
    return own[-1] if own and _is_plain(own[-1]) else None


def _is_plain(event: Final) -> bool:
    return all(abs(value) <= LARGEST_SCORE for value in event.returns)


Contexts = Mapping[tuple[float, ...], tuple[float, ...]]
"""Returns of the episodes by the context that they were played in, contexts rising."""


def by_context(event: Final, parameters: tuple[str, ...]) -> Contexts:
    """Returns by context; an episode that does not say all of its context is left out."""
    measures = event.measures or {}
    nothing = (math.nan,) * len(event.returns)
    columns = [measures.get(f"{CONTEXT}{name}", nothing) for name in parameters]
    found: dict[tuple[float, ...], list[float]] = {}
    for context, value in zip(zip(*columns, strict=True), event.returns, strict=False):
        if all(map(math.isfinite, context)):
            found.setdefault(context, []).append(value)
    return {context: tuple(found[context]) for context in sorted(found)}
