"""Networks that grow from generation to generation: the mutations of SEARL.

Franke et al. 2021, Sample-Efficient Automated Deep Reinforcement Learning, arXiv:2009.01555. Numbers that
the paper leaves open are those of its code: at most three layers of at most 500 units.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge, Interval

KEYS = ("agent.network", "agent.actor", "agent.critic")
"""The settings that hold the hidden layers of networks."""
Probability = Annotated[float, Interval(ge=0, le=1)]
Count = Annotated[int, Ge(1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkGrowth:
    """By how much a network may grow.

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


def is_network(key: str, value: Any) -> bool:
    """Whether a searched setting holds the hidden layers of a network."""
    return key in KEYS and isinstance(value, list | tuple)
