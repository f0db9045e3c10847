"""From single values to points: values at one step are episodes of the same evaluation."""

from collections.abc import Mapping, Sequence

from rlexp.errors import did_you_mean
from rlexp.exchange.importers.study import Point, Returns, Wanted, malformed_error

USUAL: Mapping[str, tuple[Returns, str | None]] = {
    "eval/mean_reward": (Returns.EVALUATION_MEANS, "eval/mean_ep_length"),
    "charts/episodic_return": (Returns.TRAINING, "charts/episodic_length"),
    "rollout/ep_rew_mean": (Returns.TRAINING_MEANS, "rollout/ep_len_mean"),
}
"""Series of returns that libraries write, those that say most first, with those of lengths."""
MOST_NAMES = 20
"""Series that an error names."""

Value = tuple[int, float, float | None]
"""Environment steps, a return, and seconds since 1970 where they are known."""


def choose_series(
    name: str, there: Sequence[str], wanted: Wanted
) -> tuple[str, Returns, str | None]:
    """The series of the returns, what they are of, and the series of their lengths.

    Raises:
        MalformedError: None is known to be of returns, or the one that is asked for is not there.
    """
    known = [series for series in USUAL if series in there]
    chosen = wanted.metric or (known[0] if known else None)
    if chosen is None or chosen not in there:
        listed = ", ".join(sorted(there)[:MOST_NAMES]) or "none"
        hint = did_you_mean(chosen, there) if chosen else ""
        what = (
            f"there is no series {chosen!r}{hint}"
            if chosen
            else "no series is known to be of returns"
        )
        raise malformed_error(name, "", f"{what}: name one with --metric (there are: {listed})")
    returns, lengths = USUAL.get(chosen, (_guessed(chosen), None))
    return chosen, wanted.returns or returns, lengths


def _guessed(series: str) -> Returns:
    """What a series of nobody we know is of, by its first word."""
    is_evaluation = series.lower().startswith(("eval", "test"))
    return Returns.EVALUATION_MEANS if is_evaluation else Returns.TRAINING_MEANS


def group_by_step(values: Sequence[Value], lengths: Sequence[int] = ()) -> tuple[Point, ...]:
    """Points in rising order of their steps, values at one step in the order given.

    Args:
        values: In any order.
        lengths: Of their episodes, one to one, or none.
    """
    places: dict[int, list[int]] = {}
    for position, (step, _, _) in enumerate(values):
        places.setdefault(step, []).append(position)
    return tuple(
        Point(
            step=step,
            returns=tuple(values[p][1] for p in own),
            lengths=tuple(lengths[p] for p in own) if lengths else (),
            time=max((t for p in own if (t := values[p][2]) is not None), default=None),
        )
        for step, own in sorted(places.items())
    )


def merge_equal_steps(points: Sequence[Point]) -> tuple[Point, ...]:
    """Points at one step put together, as episodes of one evaluation."""
    found: list[Point] = []
    for point in points:
        if found and found[-1].step == point.step and found[-1].final == point.final:
            found[-1] = _both(found[-1], point)
        else:
            found.append(point)
    return tuple(found)


def _both(first: Point, second: Point) -> Point:
    known = bool(first.lengths) and bool(second.lengths)
    return Point(
        step=second.step,
        returns=(*first.returns, *second.returns),
        lengths=(*first.lengths, *second.lengths) if known else (),
        time=second.time,
        final=second.final,
    )
