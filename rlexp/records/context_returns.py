"""Returns of the final policy by context, and the worst mean return of a context."""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from rlexp.protocol.measures import CONTEXT
from rlexp.records.events import EpisodeValues
from rlexp.text import format_count

LEVEL = "level"
"""Parameter that numbers the levels of a list; as an index it is no number of the dynamics."""
_WORST = "worst_of_"
Contexts = Mapping[tuple[float, ...], tuple[float, ...]]
"""Returns of the episodes by context, with contexts in rising order."""


def context_names(events: Iterable[EpisodeValues]) -> tuple[str, ...]:
    """Names of the context parameters of episodes, sorted."""
    names = {name for event in events for name in event.measures or {}}
    return tuple(sorted(n.removeprefix(CONTEXT) for n in names if n.startswith(CONTEXT)))


def by_context(event: EpisodeValues, parameters: tuple[str, ...]) -> Contexts:
    """Returns by context; episodes with an incomplete context are left out."""
    measures = event.measures or {}
    # NaN marks the parameter as missing, so that the filter below leaves the episode out.
    nothing = (math.nan,) * len(event.returns)
    columns = [measures.get(f"{CONTEXT}{name}", nothing) for name in parameters]
    returns: dict[tuple[float, ...], list[float]] = {}
    for context, value in zip(zip(*columns, strict=True), event.returns, strict=False):
        if all(map(math.isfinite, context)):
            returns.setdefault(context, []).append(value)
    return {context: tuple(returns[context]) for context in sorted(returns)}


def mean_return(returns: Sequence[float]) -> float:
    """Mean return of the episodes of one context, as every surface computes it."""
    return float(np.mean(returns))


def worst_context(event: EpisodeValues, largest: float) -> dict[str, float]:
    """The least mean return of a context, by a name that says over which contexts and episodes.

    The name is `worst_of_25_contexts_by_4_episodes`, or `…_by_3_to_4_episodes` where contexts have
    different numbers of episodes. The mapping is empty where fewer than two contexts were played,
    where they are levels, and where a return is no possible score.

    Args:
        event: The final evaluation of a run.
        largest: The largest absolute value of a score.
    """
    parameters = tuple(name for name in context_names([event]) if name != LEVEL)
    # The comparison is false for NaN.
    if not parameters or not all(abs(value) <= largest for value in event.returns):
        return {}
    returns = by_context(event, parameters)
    if len(returns) < 2:
        return {}
    least = min(map(mean_return, returns.values()))
    return {worst_context_name([len(episodes) for episodes in returns.values()]): least}


def worst_context_name(episodes: Sequence[int]) -> str:
    """The name of the worst mean return over contexts with these numbers of episodes."""
    low, high = min(episodes), max(episodes)
    number = format_count(high, "episode") if low == high else f"{low} to {high} episodes"
    words = f"{len(episodes)} contexts by {number}"
    return _WORST + words.replace(",", "").replace(" ", "_")


def is_worst_context(measure: str) -> bool:
    """Whether a measure of a run is the worst mean return of a context, in units of returns."""
    return measure.startswith(_WORST)
