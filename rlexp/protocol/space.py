"""Search spaces: the possible values of each hyperparameter, and the conditions for its use."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self

from rlexp.errors import ConfigError, did_you_mean
from rlexp.protocol.identity import canonical

SWITCH = "switch."
"""Prefix of parameters that are not in the configuration: they only activate other parameters."""

Scale = Literal["linear", "log", "flipped_log"]
"""`flipped_log` is logarithmic in the distance from 1, which suits discount factors."""


@dataclass(frozen=True, slots=True)
class Real:
    """Real numbers from `low` to `high`, both included."""

    low: float
    high: float
    scale: Scale = "linear"

    def __post_init__(self) -> None:
        """Refuse an empty range, and a range outside of the domain of its scale."""
        _check_ends(self.low, self.high)
        if self.scale == "log" and self.low <= 0:
            raise ConfigError(f"a log range must begin above 0, not at {self.low:g}")
        if self.scale == "flipped_log" and self.high >= 1:
            raise ConfigError(f"a flipped_log range must end below 1, not at {self.high:g}")

    def from_unit(self, share: float) -> float:
        """The value at a fraction in [0, 1] of the range, on its scale."""
        low, high = self._on_scale(self.low), self._on_scale(self.high)
        # Rounding of the logarithm can leave the range by a bit: the value is clipped.
        value = self._back(low + share * (high - low))
        return float(min(max(value, self.low), self.high))

    def to_unit(self, value: Any) -> float | None:
        """The fraction of the range at which a value is; an outside value is clipped."""
        if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
            return None
        low, high = self._on_scale(self.low), self._on_scale(self.high)
        inside = min(max(float(value), self.low), self.high)
        return min(max((self._on_scale(inside) - low) / (high - low), 0.0), 1.0)

    def holds(self, value: Any) -> bool:
        """Whether a value is in the range."""
        return self.to_unit(value) is not None and self.low <= value <= self.high

    @property
    def text(self) -> str:
        """The range in words."""
        return f"{self.low:g} to {self.high:g}"

    def _on_scale(self, value: float) -> float:
        match self.scale:
            case "log":
                return math.log(value)
            case "flipped_log":
                # For small values 1 − value would lose digits, which `log1p` and `expm1` keep.
                return -math.log1p(-value)
            case _:
                return value

    def _back(self, value: float) -> float:
        match self.scale:
            case "log":
                return math.exp(value)
            case "flipped_log":
                return -math.expm1(-value)
            case _:
                return value


@dataclass(frozen=True, slots=True)
class Integer:
    """Whole numbers from `low` to `high`, both included."""

    low: int
    high: int
    log: bool = False

    def __post_init__(self) -> None:
        """Refuse an empty range, and a log range with numbers below 1."""
        _check_ends(self.low, self.high)
        if self.log and self.low < 1:
            raise ConfigError(f"a log range of whole numbers must begin at 1, not at {self.low}")

    def from_unit(self, share: float) -> int:
        """The value at a fraction in [0, 1] of the range, on its scale."""
        low, high = self._ends()
        value = low + share * (high - low)
        # The scale ends half a unit outside of the range, where rounding can give a value outside.
        return min(max(round(math.exp(value) if self.log else value), self.low), self.high)

    def to_unit(self, value: Any) -> float | None:
        """The fraction at the middle of a value's cell; a value outside is clipped to the range."""
        if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
            return None
        low, high = self._ends()
        inside = min(max(float(value), self.low), self.high)
        return ((math.log(inside) if self.log else inside) - low) / (high - low)

    def holds(self, value: Any) -> bool:
        """Whether a value is in the range."""
        return self.to_unit(value) is not None and self.low <= value <= self.high

    @property
    def text(self) -> str:
        """The range in words."""
        return f"{self.low:g} to {self.high:g}"

    def _ends(self) -> tuple[float, float]:
        # Half a unit beyond both ends, so that the end values are as probable as the others.
        low, high = self.low - 0.5, self.high + 0.5
        return (math.log(low), math.log(high)) if self.log else (low, high)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several values without an order."""

    values: tuple[Any, ...]
    _positions: Mapping[str, int] = field(init=False, repr=False, compare=False)
    """The index of each value, by its JSON: tuners compare values thousands of times."""

    def __post_init__(self) -> None:
        """Refuse fewer than two values, and repeated values."""
        if len(self.values) < 2:
            raise ConfigError("a choice needs two values or more")
        # Compared as JSON, because `1 == True` in Python.
        positions = {canonical(value): position for position, value in enumerate(self.values)}
        if len(positions) < len(self.values):
            raise ConfigError("a choice names a value twice")
        object.__setattr__(self, "_positions", positions)

    def from_unit(self, share: float) -> Any:
        """The value at a fraction in [0, 1], which is divided into equal parts, one per value."""
        # The fraction 1 would be an index past the end.
        return self.values[min(int(share * len(self.values)), len(self.values) - 1)]

    def to_unit(self, value: Any) -> float | None:
        """The middle of a value's part of [0, 1]; None if it is not one of the values."""
        position = self.position(value)
        return None if position is None else (position + 0.5) / len(self.values)

    def holds(self, value: Any) -> bool:
        """Whether a value is one of the values."""
        return self.position(value) is not None

    @property
    def text(self) -> str:
        """The values in words."""
        return ", ".join(map(str, self.values))

    def position(self, value: Any) -> int | None:
        """The index of a value among the choices; None if it is not one of them."""
        return self._positions.get(canonical(value))


Domain = Real | Integer | Choice


def _check_ends(low: float, high: float) -> None:
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ConfigError("the ends of a range must be finite")
    if low >= high:
        raise ConfigError(f"a range must go up: {low:g} is not below {high:g}")


@dataclass(frozen=True, slots=True)
class Prior:
    """A guess of the best value of a parameter, and how sure it is.

    Attributes:
        guess: The value.
        width: For a range, the standard deviation around the guess as a share of the range, on its
            scale. For a choice, the probability that the guess is not used and every value is equally
            likely. In (0, 1].
    """

    guess: Any
    width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A key of the configuration that is tuned.

    Attributes:
        key: Key on the command line: `algorithm.learning_rate`, or the name of a group.
        domain: The possible values.
        when: Conditions: the parameter is active only if each of these parameters has one of the
            given values.
        prior: What the user expects; None without a guess.
    """

    key: str
    domain: Domain
    when: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    prior: Prior | None = None
    _allowed: Mapping[str, frozenset[str]] = field(init=False, repr=False, compare=False)
    """The values of `when` as JSON."""

    def __post_init__(self) -> None:
        """Write the conditions as JSON once: `is_active` is called thousands of times."""
        allowed = {key: frozenset(map(canonical, values)) for key, values in self.when.items()}
        object.__setattr__(self, "_allowed", allowed)

    def is_active(self, values: Mapping[str, Any]) -> bool:
        """Whether the parameter is active, given the values of the parameters before it."""
        return all(
            # Compared as JSON, because `1 == True` in Python.
            key in values and canonical(values[key]) in allowed
            for key, allowed in self._allowed.items()
        )

    @property
    def is_switch(self) -> bool:
        """Whether the parameter only activates others and is not a key of the configuration."""
        return self.key.startswith(SWITCH)


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """The parameters of a sweep; a parameter comes after those on which it depends."""

    parameters: tuple[Parameter, ...]

    def __post_init__(self) -> None:
        """Refuse conditions on anything but an earlier choice."""
        before: dict[str, Domain] = {}
        for parameter in self.parameters:
            for key, allowed in parameter.when.items():
                _check_condition(parameter.key, key, allowed, before)
            before[parameter.key] = parameter.domain

    def searched(self) -> Self:
        """The space, if a tuner can search it; only that of a stream has no parameter.

        Raises:
            ConfigError: It is empty.
        """
        if not self.parameters:
            raise ConfigError(
                "the search space is empty: name a file of sweeps/, or add a parameter such as "
                "'sweep.space.algorithm.gamma=interval(0.9,0.99)'"
            )
        return self

    def choices(self) -> Iterator[tuple[str, Any]]:
        """Every value of every choice, with the key of its parameter."""
        for parameter in self.parameters:
            if isinstance(parameter.domain, Choice):
                yield from ((parameter.key, value) for value in parameter.domain.values)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys, in order."""
        return tuple(p.key for p in self.parameters)

    def active(self, values: Mapping[str, Any]) -> tuple[Parameter, ...]:
        """The parameters that are active for these values."""
        return tuple(p for p in self.parameters if p.is_active(values))

    def decode(self, point: Sequence[float]) -> dict[str, Any]:
        """The values of the active parameters at a point of the unit cube.

        Args:
            point: A fraction in [0, 1] for each parameter, of shape (parameters,).
        """
        values: dict[str, Any] = {}
        for parameter, share in zip(self.parameters, point, strict=True):
            if parameter.is_active(values):
                values[parameter.key] = parameter.domain.from_unit(float(share))
        return values

    def encode(self, values: Mapping[str, Any]) -> list[float | None]:
        """The point of the unit cube of some values; None for inactive and invalid values."""
        active = {p.key for p in self.active(values)}
        return [
            p.domain.to_unit(values[p.key]) if p.key in active and p.key in values else None
            for p in self.parameters
        ]

    def plain(self) -> list[dict[str, Any]]:
        """The space as JSON values, one for each parameter."""
        return [
            {
                "key": p.key,
                **_plain_domain(p.domain),
                **({"when": {k: list(v) for k, v in p.when.items()}} if p.when else {}),
                **({"prior": asdict(p.prior)} if p.prior else {}),
            }
            for p in self.parameters
        ]

    @classmethod
    def from_plain(cls, parameters: Sequence[Mapping[str, Any]]) -> "Space":
        """The space of a list of JSON values; the inverse of `plain`.

        Raises:
            KeyError: A field is missing.
        """
        return cls(
            parameters=tuple(
                Parameter(
                    key=parameter["key"],
                    domain=_domain(parameter),
                    when={k: tuple(v) for k, v in parameter.get("when", {}).items()},
                    prior=Prior(**parameter["prior"]) if "prior" in parameter else None,
                )
                for parameter in parameters
            ),
        )


def _check_condition(
    key: str, parent: str, allowed: Sequence[Any], before: Mapping[str, Domain]
) -> None:
    domain = before.get(parent)
    if not isinstance(domain, Choice):
        choices = [k for k, d in before.items() if isinstance(d, Choice)]
        raise ConfigError(
            f"{key} depends on {parent}, which is no choice that stands before it"
            f"{did_you_mean(parent, choices)}"
        )
    for value in allowed:
        if domain.position(value) is None:
            options = ", ".join(map(str, domain.values))
            raise ConfigError(f"{key}: {parent} is never {value} (it is one of {options})")


def _plain_domain(domain: Domain) -> dict[str, Any]:
    match domain:
        case Real():
            return {"type": "real", "low": domain.low, "high": domain.high, "scale": domain.scale}
        case Integer():
            return {"type": "integer", "low": domain.low, "high": domain.high, "log": domain.log}
        case Choice():
            return {"type": "choice", "values": list(domain.values)}


def _domain(parameter: Mapping[str, Any]) -> Domain:
    match parameter["type"]:
        case "real":
            return Real(parameter["low"], parameter["high"], parameter["scale"])
        case "integer":
            return Integer(parameter["low"], parameter["high"], parameter["log"])
        case "choice":
            return Choice(tuple(parameter["values"]))
        case other:
            raise ValueError(f"{other!r} is no type of parameter")
