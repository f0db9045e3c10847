"""Conversion of logged values into points: values at one step are episodes of one evaluation."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rlexp.errors import did_you_mean
from rlexp.exchange.importers.imported_study import (
    EvaluationPoint,
    ImportOptions,
    ReturnKind,
    malformed_error,
)

USUAL: Mapping[str, tuple[ReturnKind, str | None]] = {
    "eval/mean_reward": (ReturnKind.EVALUATION_MEANS, "eval/mean_ep_length"),
    "charts/episodic_return": (ReturnKind.TRAINING, "charts/episodic_length"),
    "rollout/ep_rew_mean": (ReturnKind.TRAINING_MEANS, "rollout/ep_len_mean"),
}
"""Series of returns that libraries write, best first, with the series of lengths."""
RETURN_WORD = re.compile(r"(?<![a-z])(returns?|rewards?|rews?|ep_rew|scores?)(?![a-z])")
"""Words in the names of series of returns."""
MOST_NAMES = 20
"""Series that an error message lists."""

Value = tuple[int, float, float | None]
"""Environment steps, a return, and seconds since 1970 if known."""


@dataclass(frozen=True, slots=True)
class Series:
    """A series of logged values.

    Attributes:
        name: Its name in the source.
        returns: The kind of its values.
        lengths: The name of the series of episode lengths, if there is one.
    """

    name: str
    returns: ReturnKind
    lengths: str | None

    @property
    def metric(self) -> str | None:
        """The name of the series if its values are no returns; None for returns."""
        return None if names_returns(self.name) else self.name


def names_returns(name: str) -> bool:
    """Whether the name of a series says that its values are returns."""
    return name in USUAL or RETURN_WORD.search(name.lower()) is not None


def choose_series(name: str, there: Sequence[str], options: ImportOptions) -> Series:
    """The series to import.

    Raises:
        MalformedError: The source has no known series of returns, or not the requested one.
    """
    usual = [series for series in USUAL if series in there]
    chosen = options.metric or (usual[0] if usual else None)
    if chosen is None or chosen not in there:
        listed = ", ".join(sorted(there)[:MOST_NAMES]) or "none"
        hint = did_you_mean(chosen, there) if chosen else ""
        what = (
            f"the series {chosen!r} does not exist{hint}"
            if chosen
            else "no series is a known series of returns"
        )
        raise malformed_error(name, "", f"{what}: name one with --metric (there are: {listed})")
    returns, lengths = USUAL.get(chosen, (guess_kind(chosen), None))
    return Series(chosen, options.returns or returns, lengths)


def guess_kind(series: str) -> ReturnKind:
    """The kind of returns in an unknown series, guessed from the beginning of its name."""
    is_evaluation = series.lower().startswith(("eval", "test"))
    return ReturnKind.EVALUATION_MEANS if is_evaluation else ReturnKind.TRAINING_MEANS


def group_by_step(
    values: Sequence[Value], lengths: Sequence[int] = ()
) -> tuple[EvaluationPoint, ...]:
    """Points in rising order of their steps, values at one step in the order given.

    Args:
        values: Values in any order.
        lengths: Lengths of their episodes in the same order, or none at all.
    """
    positions: dict[int, list[int]] = {}
    for position, (step, _, _) in enumerate(values):
        positions.setdefault(step, []).append(position)
    return tuple(
        EvaluationPoint(
            step=step,
            returns=tuple(values[p][1] for p in members),
            lengths=tuple(lengths[p] for p in members) if lengths else (),
            time=max((t for p in members if (t := values[p][2]) is not None), default=None),
        )
        for step, members in sorted(positions.items())
    )


def merge_equal_steps(points: Sequence[EvaluationPoint]) -> tuple[EvaluationPoint, ...]:
    """Neighbouring points of one step, joined as episodes of one evaluation."""
    result: list[EvaluationPoint] = []
    for point in points:
        if result and result[-1].step == point.step and result[-1].final == point.final:
            result[-1] = _both(result[-1], point)
        else:
            result.append(point)
    return tuple(result)


def _both(first: EvaluationPoint, second: EvaluationPoint) -> EvaluationPoint:
    have_lengths = bool(first.lengths) and bool(second.lengths)
    return EvaluationPoint(
        step=second.step,
        returns=(*first.returns, *second.returns),
        lengths=(*first.lengths, *second.lengths) if have_lengths else (),
        time=second.time,
        final=second.final,
    )
