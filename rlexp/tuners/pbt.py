"""Population-based training, with networks that grow from generation to generation (SEARL)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from annotated_types import Ge, Interval, Len

from rlexp.protocol.identity import Identity
from rlexp.protocol.space import Choice, Domain, Parameter
from rlexp.tuners import Problem, Suggester
from rlexp.tuners.population import (
    Exploration,
    PopulationSuggester,
    PopulationTuner,
    check_problem,
)

Factor = Annotated[float, Interval(gt=0, lt=100)]
KEYS = ("agent.network", "agent.actor", "agent.critic")
"""The settings that hold the hidden layers of networks."""
Probability = Annotated[float, Interval(ge=0, le=1)]
Count = Annotated[int, Ge(1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkGrowth:
    """By how much a network may grow: the mutations of SEARL.

    Franke et al. 2021, Sample-Efficient Automated Deep Reinforcement Learning, arXiv:2009.01555. Numbers
    that the paper leaves open are those of its code: at most three layers of at most 500 units.

    Attributes:
        probability: Probability that a network grows at all.
        new_layer: Probability that it grows by a layer; otherwise a layer grows by units.
        new_units: Numbers of units that a layer grows by, one of which is drawn.
        most_layers: Largest number of hidden layers.
        most_units: Largest number of units of a layer.
    """

    probability: float = 0.5
    new_layer: float = 0.2
    new_units: Sequence[int] = (16, 32, 64)
    most_layers: int = 3
    most_units: int = 500

    def grown(self, layers: Sequence[int], random: np.random.Generator) -> list[int]:
        """The hidden layers of the network after a mutation; each of them has what it had, or more.

        A new layer is as wide as the last one, and stands behind it. A network that has the most
        layers grows by units, and one without hidden layers stays as it is.

        Args:
            layers: Units of each hidden layer.
            random: Makes four draws, whatever they decide.
        """
        whether, kind = random.random(), random.random()
        position = int(random.integers(max(len(layers), 1)))
        added = int(self.new_units[int(random.integers(len(self.new_units)))])
        sizes = list(layers)
        if not sizes or whether >= self.probability:
            return sizes
        if kind < self.new_layer and len(sizes) < self.most_layers:
            return [*sizes, sizes[-1]]
        if sizes[position] + added <= self.most_units:
            sizes[position] += added
        return sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class PBT(PopulationTuner):
    """Population-based training (Jaderberg et al. 2017, arXiv:1711.09846).

    After each generation, the worst members become copies of the best ones, with their networks,
    optimisers and values. The values of a copy are changed: drawn again, or multiplied by a factor.

    Attributes:
        resample: Probability that a value of a copy is drawn again from its range.
        factors: By one of these factors a value of a copy is multiplied otherwise. A choice moves to
            a neighbour instead.
        growth: Probability that the network of a copy grows, where the space has `agent.network`,
            `agent.actor` or `agent.critic`. A network is neither drawn again nor multiplied. Null, here
            and below: as `NetworkGrowth` has it.
        new_layer: Probability that it grows by a layer; otherwise a layer grows by units.
        new_units: Numbers of units that a layer grows by, one of which is drawn.
        most_layers: Largest number of hidden layers.
        most_units: Largest number of units of a layer.
        shared_replay: Whether the transitions of all members enter the replay buffers of the next
            generation, as in SEARL. Null: they do not.
    """

    identity: ClassVar = Identity("tuner", "pbt")

    resample: Annotated[float, Interval(ge=0, le=1)]
    factors: tuple[Factor, Factor]
    # Sweeps that began before networks could grow do not have the following settings. Null ones are not
    # hashed, so that these sweeps keep their definition.
    growth: Probability | None = None
    new_layer: Probability | None = None
    new_units: Annotated[tuple[Count, ...], Len(1)] | None = None
    most_layers: Count | None = None
    most_units: Count | None = None
    shared_replay: bool | None = None

    def open(self, problem: Problem) -> Suggester:
        """A suggester for a problem.

        Raises:
            ConfigError: The problem has several objectives or conditions, or the generations do not
                divide the steps.
        """
        check_problem("pbt", problem, choices=True)
        members = self.members(problem.steps)
        return PopulationSuggester(problem, members, self.quantile, self, bool(self.shared_replay))

    @property
    def network_growth(self) -> NetworkGrowth:
        """How networks of copies grow, with the values of null settings."""
        given = {
            "probability": self.growth,
            "new_layer": self.new_layer,
            "new_units": self.new_units,
            "most_layers": self.most_layers,
            "most_units": self.most_units,
        }
        changed: dict[str, Any] = {k: value for k, value in given.items() if value is not None}
        return NetworkGrowth(**changed)

    def explore(self, exploration: Exploration) -> dict[str, Any]:
        """The values of the copied trial, each drawn again or multiplied by a factor."""
        random, values = exploration.random, exploration.source.parameters
        return {
            p.key: self._changed(p, values[p.key], random) for p in exploration.space.parameters
        }

    def _changed(self, parameter: Parameter, value: Any, random: np.random.Generator) -> Any:
        if is_network(parameter.key, value):
            return self.network_growth.grown(value, random)
        domain = parameter.domain
        if random.random() < self.resample:
            return domain.from_unit(random.random())
        return multiplied(domain, value, self.factors[int(random.integers(2))])


def multiplied(domain: Domain, value: Any, factor: float) -> Any:
    """A value times a factor, within its range; the neighbour of a choice on that side."""
    if isinstance(domain, Choice):
        position = domain.position(value) or 0
        beside = position + (1 if factor > 1 else -1)
        return domain.values[min(max(beside, 0), len(domain.values) - 1)]
    share = domain.to_unit(value * factor)
    return value if share is None else domain.from_unit(min(max(share, 0.0), 1.0))


def is_network(key: str, value: Any) -> bool:
    """Whether a searched setting holds the hidden layers of a network."""
    return key in KEYS and isinstance(value, list | tuple)
