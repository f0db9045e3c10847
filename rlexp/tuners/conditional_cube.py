"""The unit cube of a search space whose parameters can be inactive, as arrays for a forest."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rlexp.protocol.space import Choice, Domain, Parameter, Space
from rlexp.records.trial import Trial

Numbers = NDArray[np.float64]

CELLS = 64
"""Cells of a range on the grid of the forest."""
STEP = 0.2
"""Standard deviation of a neighbour in a range, as a share of the range (SMAC3)."""
NEIGHBOURS = 4
"""Neighbours of a point in each parameter (SMAC3)."""


@dataclass(frozen=True)
class ConditionalCube:
    """The unit cube of a space as arrays: activity of parameters, cells of a grid, neighbours."""

    space: Space

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of cells of each parameter; cell 0 is for an inactive parameter."""
        return tuple(_values(p.domain, CELLS) + 1 for p in self.space.parameters)

    def points(self, trials: Sequence[Trial]) -> Numbers:
        """The points of trials, of shape (trials, parameters); NaN for an inactive parameter."""
        rows = [self.space.encode(trial.parameters) for trial in trials]
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(self.sizes))

    def cells(self, points: Numbers) -> NDArray[np.intp]:
        """The cells of points, of the same shape.

        Args:
            points: Of shape (points, parameters), without NaN in active parameters.
        """
        count = np.array(self.sizes) - 1
        cells = np.clip(np.floor(np.nan_to_num(points) * count), 0, count - 1).astype(np.intp) + 1
        return np.where(self._active(points) & ~np.isnan(points), cells, 0)

    def neighbours(self, centres: Numbers, generator: np.random.Generator) -> Numbers:
        """Points that differ from a centre in one parameter, of shape (neighbours, parameters)."""
        parameters = self.space.parameters
        repeated = np.repeat(centres, NEIGHBOURS * len(parameters), axis=0)
        changed = np.tile(np.repeat(np.arange(len(parameters)), NEIGHBOURS), len(centres))
        rows = np.arange(len(repeated))
        moved = np.clip(generator.normal(repeated[rows, changed], STEP), 0.0, 1.0)
        drawn = generator.random(len(rows))
        is_choice = np.array([isinstance(p.domain, Choice) for p in parameters])
        repeated[rows, changed] = np.where(is_choice[changed], drawn, moved)
        return np.asarray(repeated)

    def _active(self, points: Numbers) -> NDArray[np.bool_]:
        active = np.ones(points.shape, dtype=np.bool_)
        for d, conditions in enumerate(self._conditions):
            for parent, allowed in conditions:
                size = self.sizes[parent] - 1
                position = np.minimum(np.floor(np.nan_to_num(points[:, parent]) * size), size - 1)
                active[:, d] &= active[:, parent] & np.isin(position, allowed)
        return active

    @cached_property
    def _conditions(self) -> list[list[tuple[int, list[int]]]]:
        """The conditions of each parameter."""
        return [self._conditions_of(parameter) for parameter in self.space.parameters]

    def _conditions_of(self, parameter: Parameter) -> list[tuple[int, list[int]]]:
        """The number of each parameter that decides, and the positions of its allowed choices."""
        keys = self.space.keys
        conditions = []
        for key, allowed in parameter.when.items():
            domain = self.space.parameters[keys.index(key)].domain
            assert isinstance(domain, Choice)  # `Space` refuses conditions on anything else.
            positions = [domain.position(value) for value in allowed]
            conditions.append((keys.index(key), [p for p in positions if p is not None]))
        return conditions


def _values(domain: Domain, cells: int) -> int:
    return len(domain.values) if isinstance(domain, Choice) else cells
