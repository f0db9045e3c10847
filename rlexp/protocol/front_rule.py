"""The declared rule by which one policy of a front is chosen, and the declared reference point."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import fsum, isfinite
from typing import Any, Literal

from rlexp.errors import ConfigError

KEY = "sweep.choose"
REFERENCE_KEY = "sweep.reference_point"
UTILITY_KEY = "sweep.utility_weights"
FIRST, KNEE, WEIGHTS, CONSTRAINT = "first", "knee", "weights", "constraint"
FORMS = "first, knee, {weights: {OBJECTIVE: NUMBER, …}} or {constraint: {OBJECTIVE: BOUND}}"
Kind = Literal["first", "knee", "weights", "constraint"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontRule:
    """How one policy of a front is chosen.

    Attributes:
        kind: `first`: the best value of the first objective. `knee`: the policy that is farthest from the
            line through the ends of the front (Das 1999, "On characterizing the knee of the Pareto
            curve"); with more objectives, that with the largest sum of values, each divided by the range of
            the front. `weights`: the largest weighted sum, in the units of the objectives.
            `constraint`: the best value of the first objective without a bound, among the policies
            that keep every bound.
        objectives: The objectives of the sweep.
        minimised: Those whose lower values are better.
        numbers: The weight or the bound of objectives, in their units; empty for the other kinds.
    """

    kind: Kind
    objectives: tuple[str, ...]
    minimised: frozenset[str]
    numbers: Mapping[str, float]

    def best(self, merits: Sequence[Sequence[float]]) -> int:
        """The position of the chosen policy; of equal ones, that with the best first objective.

        Args:
            merits: The objectives of each policy of the front, greater is better; one or more policies.
        """
        ratings = self._ratings(merits)
        return max(range(len(merits)), key=lambda k: (ratings[k], *merits[k], -k))

    def excess(self, merits: Sequence[float]) -> tuple[float, ...]:
        """By how much a policy breaks each bound, in units of the objective; 0 where it keeps it."""
        bounds = zip(self.objectives, merits, strict=True)
        return tuple(
            max(self._sign(name) * self.numbers[name] - merit, 0.0)
            for name, merit in bounds
            if self.kind == CONSTRAINT and name in self.numbers
        )

    def text(self, merits: Sequence[Sequence[float]]) -> str:
        """The rule in words, as it decided among these policies."""
        match self.kind:
            case "first":
                return f"the best {self.objectives[0]}"
            case "knee" if len(merits) < 3:
                why = "because a front of fewer than three policies has no knee"
                return f"the best {self.objectives[0]}, {why}"
            case "knee":
                return "the knee of the front"
            case "weights":
                terms = (f"{weight:g} × {name}" for name, weight in self.numbers.items())
                return f"the best weighted sum, {' and '.join(terms)}"
            case "constraint":
                return self._constraint_text(merits)

    def _constraint_text(self, merits: Sequence[Sequence[float]]) -> str:
        bounds = " and ".join(
            f"{name} {'at most' if name in self.minimised else 'at least'} {bound:g}"
            for name, bound in self.numbers.items()
        )
        if any(not any(self.excess(each)) for each in merits):
            return f"the best {self._free} with {bounds}"
        return f"the policy that is nearest to {bounds}, which none keeps"

    @property
    def _free(self) -> str:
        """The first objective without a bound."""
        return next(name for name in self.objectives if name not in self.numbers)

    def _sign(self, name: str) -> int:
        return -1 if name in self.minimised else 1

    def _ratings(self, merits: Sequence[Sequence[float]]) -> list[tuple[float, ...]]:
        """What decides between the policies, greater is better."""
        match self.kind:
            case "first":
                return [(each[0],) for each in merits]
            case "knee":
                return [(share,) for share in _sums_of_shares(merits)]
            case "weights":
                return [(self._weighted(each),) for each in merits]
            case "constraint":
                return self._kept_first(merits)

    def _weighted(self, merits: Sequence[float]) -> float:
        pairs = zip(self.objectives, merits, strict=True)
        return fsum(self.numbers[name] * merit for name, merit in pairs)

    def _kept_first(self, merits: Sequence[Sequence[float]]) -> list[tuple[float, ...]]:
        free = self.objectives.index(self._free)
        bounded = [self.objectives.index(name) for name in self.objectives if name in self.numbers]
        ranges = [max(m[k] for m in merits) - min(m[k] for m in merits) or 1.0 for k in bounded]
        broken = [
            # Bounds of several objectives have different units: each counts in the range of the front.
            max((e / r for e, r in zip(self.excess(each), ranges, strict=True)), default=0.0)
            for each in merits
        ]
        return [(-over, each[free]) for over, each in zip(broken, merits, strict=True)]


def _sums_of_shares(merits: Sequence[Sequence[float]]) -> list[float]:
    """The sum of the objectives of each policy, each divided by the range of the front."""
    if len(merits) < 3:
        # The ends of a front are on the line through them, and rounding would decide.
        return [0.0] * len(merits)
    lows = [min(column) for column in zip(*merits, strict=True)]
    spans = [
        max(column) - low for column, low in zip(zip(*merits, strict=True), lows, strict=True)
    ]
    return [
        fsum((v - low) / span for v, low, span in zip(each, lows, spans, strict=True) if span > 0)
        for each in merits
    ]


def read_rule(value: Any, objectives: Sequence[str], minimised: Collection[str] = ()) -> FrontRule:
    """The rule of `sweep.choose`.

    Args:
        value: The setting.
        objectives: The objectives of the sweep.
        minimised: Those whose lower values are better.

    Raises:
        ConfigError: The rule does not exist, or does not fit the objectives.
    """
    if value in (FIRST, KNEE):
        kind, numbers = value, {}
    elif isinstance(value, Mapping) and len(value) == 1 and set(value) <= {WEIGHTS, CONSTRAINT}:
        ((kind, given),) = value.items()
        numbers = _numbers(given, f"{KEY}.{kind}", objectives)
        if kind == WEIGHTS:
            _check_weights(numbers, objectives)
        else:
            _check_bounds(numbers, objectives)
    else:
        raise ConfigError(
            f"{KEY}={value} is no rule of a choice: write {FORMS}",
            code="unknown_value",
            key=KEY,
            allowed=(FIRST, KNEE, WEIGHTS, CONSTRAINT),
        )
    return FrontRule(
        kind=kind,
        objectives=tuple(objectives),
        minimised=frozenset(minimised),
        numbers={name: numbers[name] for name in objectives if name in numbers},
    )


def check_reference(value: Mapping[str, Any], objectives: Sequence[str]) -> None:
    """Refuse a reference point that has not one finite number for each objective.

    Raises:
        ConfigError: Names the objective.
    """
    _check_every(_numbers(value, REFERENCE_KEY, objectives), REFERENCE_KEY, objectives)


def check_utility_weights(value: Sequence[Sequence[float]], objectives: Sequence[str]) -> None:
    """Refuse weights of a utility that do not fit the objectives.

    Raises:
        ConfigError: Names the wrong vector.
    """
    if not value:
        raise ConfigError(
            f"{UTILITY_KEY} is empty: give vectors of weights, or leave it out", key=UTILITY_KEY
        )
    for weights in value:
        fits = len(weights) == len(objectives)
        if not fits or not all(isfinite(w) and w >= 0 for w in weights) or not any(weights):
            raise ConfigError(
                f"{UTILITY_KEY}: {list(weights)} must be {len(objectives)} weights, one for each of "
                "sweep.objective, none below 0 and not all 0",
                key=UTILITY_KEY,
            )


def _numbers(given: Any, key: str, objectives: Sequence[str]) -> dict[str, float]:
    """The number of each named objective."""
    names = ", ".join(objectives)
    if not isinstance(given, Mapping) or not given:
        raise ConfigError(
            f"{key}={given} must name objectives with a number each, of {names}", key=key
        )
    for name, number in given.items():
        if name not in objectives:
            raise ConfigError.unknown(
                f"{key} names {name}, which sweep.objective does not",
                str(name),
                objectives,
                code="unknown_value",
                key=key,
            )
        is_number = isinstance(number, int | float) and not isinstance(number, bool)
        if not is_number or not isfinite(number):
            raise ConfigError(f"{key}.{name}={number} must be a finite number", key=key)
    return {str(name): float(number) for name, number in given.items()}


def _check_weights(weights: Mapping[str, float], objectives: Sequence[str]) -> None:
    key = f"{KEY}.{WEIGHTS}"
    _check_every(weights, key, objectives)
    if min(weights.values()) < 0 or not any(weights.values()):
        raise ConfigError(
            f"{key}={dict(weights)} must be 0 or more, and not all 0: the direction of an objective is "
            "declared with it",
            key=key,
        )


def _check_bounds(bounds: Mapping[str, float], objectives: Sequence[str]) -> None:
    if len(bounds) == len(objectives):
        raise ConfigError(
            f"{KEY}.{CONSTRAINT} bounds all objectives, so that none is left to be optimised: leave one of "
            f"{', '.join(objectives)} out",
            key=f"{KEY}.{CONSTRAINT}",
        )


def _check_every(numbers: Mapping[str, float], key: str, objectives: Sequence[str]) -> None:
    if lacking := [name for name in objectives if name not in numbers]:
        raise ConfigError(
            f"{key} has no number for {lacking[0]}: give one for each objective", key=key
        )
