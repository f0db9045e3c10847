"""Grid search."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from annotated_types import Ge

from rlexp.errors import ConfigError
from rlexp.protocol.identity import Identity, canonical
from rlexp.protocol.space import Choice, Domain, Integer, Parameter, Real, Space
from rlexp.records.trial import Trial
from rlexp.tuners import Problem, Suggester, Suggestion

LIMIT = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Every combination once, the last parameter changing fastest; then nothing more.

    Attributes:
        points: Values of each range, evenly spaced on its scale, both ends included. A range of
            no more whole numbers than that has all of them, a choice all of its values.
    """

    identity: ClassVar = Identity("tuner", "grid")

    points: Annotated[int, Ge(2)]

    def open(self, problem: Problem) -> Suggester:
        """Begin to work on a problem.

        Raises:
            ConfigError: The grid is so large that no sweep would see more than a corner of it.
        """
        return _Combinations(
            problem.space, {p.key: levels(p.domain, self.points) for p in problem.space.parameters}
        )


def levels(domain: Domain, points: int) -> list[Any]:
    """The values of a domain that are on the grid, in order."""
    match domain:
        case Choice():
            return list(domain.values)
        case Integer() if domain.high - domain.low < points:
            return list(range(domain.low, domain.high + 1))
        case _:
            return list(dict.fromkeys(map(domain.from_unit, _shares(domain, points))))


def _shares(domain: Real | Integer, points: int) -> Iterator[float]:
    # The ends of a range of whole numbers lie half a step inside its unit interval.
    low, high = domain.to_unit(domain.low) or 0.0, domain.to_unit(domain.high) or 1.0
    return (low + (high - low) * i / (points - 1) for i in range(points))


@dataclass(slots=True)
class _Combinations:
    """The leaves of the tree in which each active parameter branches into its levels.

    A leaf is found by counting those before it, so that none has to be kept.
    """

    space: Space
    levels: Mapping[str, Sequence[Any]]
    decisive: frozenset[str] = field(init=False)
    known: dict[tuple[int, str], int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Count the leaves, and refuse too many."""
        self.decisive = frozenset(key for p in self.space.parameters for key in p.when)
        self._count(0, {})

    def needs(self, number: int) -> int:
        """No trial: the grid does not depend on any."""
        del number
        return 0

    def suggest(self, trials: Sequence[Trial], number: int) -> Suggestion | None:
        """The combination that belongs to the number, or nothing after the last one."""
        del trials
        index = number - 1
        if index >= self._count(0, {}):
            return None
        values: dict[str, Any] = {}
        for position, parameter in enumerate(self.space.parameters):
            if parameter.is_active(values):
                level, index = self._branch(position, values, index)
                values[parameter.key] = level
        return Suggestion(values)

    def _branch(self, position: int, values: Mapping[str, Any], index: int) -> tuple[Any, int]:
        """The level under which leaf `index` is, and its index there."""
        parameter = self.space.parameters[position]
        for level in self.levels[parameter.key]:
            leaves = self._count(position + 1, {**values, parameter.key: level})
            if index < leaves:
                return level, index
            index -= leaves
        raise IndexError(index)

    def _count(self, position: int, values: Mapping[str, Any]) -> int:
        """Leaves below a node: it depends only on the values that decide about others."""
        if position == len(self.space.parameters):
            return 1
        decided = {key: values[key] for key in values if key in self.decisive}
        node = position, canonical(decided)
        if node not in self.known:
            self.known[node] = self._counted(self.space.parameters[position], position, decided)
        return self.known[node]

    def _counted(self, parameter: Parameter, position: int, decided: Mapping[str, Any]) -> int:
        if not parameter.is_active(decided):
            return self._count(position + 1, decided)
        ways = self.levels[parameter.key]
        if parameter.key in self.decisive:
            leaves = sum(self._count(position + 1, {**decided, parameter.key: w}) for w in ways)
        else:
            leaves = len(ways) * self._count(position + 1, decided)
        if leaves > LIMIT:
            raise ConfigError(
                f"the grid has more than {LIMIT:,} points; give tuner.points less than now, "
                "tune fewer parameters, or take tuner=sobol"
            )
        return leaves
