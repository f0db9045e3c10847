"""Types of hyperparameters with their ranges; all ranges exclude infinity and NaN."""

import re
from math import inf
from typing import Annotated, Literal, TypeAlias

from annotated_types import Ge, Interval, Predicate

Finite: TypeAlias = Annotated[float, Interval(gt=-inf, lt=inf)]
Positive: TypeAlias = Annotated[float, Interval(gt=0, lt=inf)]
NonNegative: TypeAlias = Annotated[float, Interval(ge=0, lt=inf)]
Share: TypeAlias = Annotated[float, Interval(gt=0, le=1)]
"""A fraction above 0."""
Discount: TypeAlias = Annotated[float, Interval(ge=0, le=1)]

Count: TypeAlias = Annotated[int, Ge(1)]
ZeroOrMore: TypeAlias = Annotated[int, Ge(0)]
CountOrAll: TypeAlias = Annotated[int, Ge(-1)]
"""A count, or -1 for all: one gradient step per collected step, or once per rollout."""

TrainFrequency: TypeAlias = Count | tuple[Count, Literal["step", "episode"]]
"""A number of steps, or a number and its unit: `[1, episode]`."""


def is_auto_or_auto_with_initial_value(text: str) -> bool:
    """Whether the text is `auto` or has the form `auto_0.1` (learned, with initial value 0.1)."""
    match = re.fullmatch(r"auto(?:_(\d+(?:\.\d*)?(?:e-?\d+)?))?", text)
    # stable-baselines3 learns the logarithm, so the initial value must be above 0.
    return match is not None and (match[1] is None or float(match[1]) > 0)


Temperature: TypeAlias = (
    NonNegative | Annotated[str, Predicate(is_auto_or_auto_with_initial_value)]
)
"""An entropy coefficient: fixed, `auto` (learned) or `auto_0.1` (learned, from 0.1)."""
TargetEntropy: TypeAlias = Finite | Literal["auto"]
