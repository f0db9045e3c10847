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

MAX_POINTS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Suggests every combination once; the last parameter changes fastest.

    Attributes:
        points: Number of values of each range, evenly spaced on its scale with both ends. A range
            of fewer integers has all of them, and a choice has all its values.
    """

    identity: ClassVar = Identity("tuner", "grid")

    points: Annotated[int, Ge(2)]

    def open(self, problem: Problem) -> Suggester:
        """A suggester for a problem.

        Raises:
            ConfigError: The grid has too many points.
        """
        return _Combinations(
            problem.space, {p.key: levels(p.domain, self.points) for p in problem.space.parameters}
        )


def levels(domain: Domain, points: int) -> list[Any]:
    """The values of a domain on the grid, in order."""
    match domain:
        case Choice():
            return list(domain.values)
        case Integer() if domain.high - domain.low < points:
            return list(range(domain.low, domain.high + 1))
        case _:
            # Two points of an integer range on a logarithmic scale may round to the same integer.
            return list(dict.fromkeys(map(domain.from_unit, _shares(domain, points))))


def _shares(domain: Real | Integer, points: int) -> Iterator[float]:
    # The ends of an integer range lie half a step inside the unit interval.
    low, high = domain.to_unit(domain.low) or 0.0, domain.to_unit(domain.high) or 1.0
    return (low + (high - low) * i / (points - 1) for i in range(points))


@dataclass(slots=True)
class _Combinations:
    """The leaves of a tree in which each active parameter branches into its levels.

    Leaves are counted, not stored: leaf n is found by counting the leaves before it.
    """

    space: Space
    levels: Mapping[str, Sequence[Any]]
    decisive: frozenset[str] = field(init=False)
    counts: dict[tuple[int, str], int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Count the leaves; raises ConfigError if there are too many."""
        self.decisive = frozenset(key for p in self.space.parameters for key in p.when)
        self._count(0, {})

    def needs(self, number: int) -> int:
        """0: the grid does not depend on trials."""
        del number
        return 0

    def suggest(self, trials: Sequence[Trial], number: int) -> Suggestion | None:
        """The combination with this number; None after the last one."""
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
        """The level whose subtree has leaf `index`, and the index of the leaf in the subtree."""
        parameter = self.space.parameters[position]
        for level in self.levels[parameter.key]:
            leaves = self._count(position + 1, {**values, parameter.key: level})
            if index < leaves:
                return level, index
            index -= leaves
        raise IndexError(index)

    def _count(self, position: int, values: Mapping[str, Any]) -> int:
        """The number of leaves below a node, which depends on the values in conditions only."""
        if position == len(self.space.parameters):
            return 1
        decided = {key: values[key] for key in values if key in self.decisive}
        node = position, canonical(decided)
        if node not in self.counts:
            self.counts[node] = self._counted(self.space.parameters[position], position, decided)
        return self.counts[node]

    def _counted(self, parameter: Parameter, position: int, decided: Mapping[str, Any]) -> int:
        if not parameter.is_active(decided):
            return self._count(position + 1, decided)
        ways = self.levels[parameter.key]
        if parameter.key in self.decisive:
            leaves = sum(self._count(position + 1, {**decided, parameter.key: w}) for w in ways)
        else:
            leaves = len(ways) * self._count(position + 1, decided)
        if leaves > MAX_POINTS:
            raise ConfigError(
                f"the grid has more than {MAX_POINTS:,} points: lower tuner.points, "
                "search fewer parameters, or choose tuner=sobol"
            )
        return leaves
