"""Population-based bandits."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from rlexp.protocol.identity import Identity
from rlexp.tuners import Problem, Suggester
from rlexp.tuners.population import (
    Exploration,
    PopulationSuggester,
    PopulationTuner,
    check_problem,
    unit_values,
)
from rlexp.tuners.time_varying_gp import TimeVaryingData, best_point

LARGEST = 1e300


@dataclass(frozen=True, slots=True, kw_only=True)
class PB2(PopulationTuner):
    """Population-based bandits (Parker-Holder et al. 2020, arXiv:2002.02518).

    Members are replaced as by `pbt`. The values of a copy maximise an upper confidence bound of the
    gain per generation, by a Gaussian process whose memory of earlier generations fades.

    Attributes:
        most_rows: The process is fitted to so many of the latest parts of trainings.
    """

    identity: ClassVar = Identity("tuner", "pb2")

    most_rows: Annotated[int, Ge(4)]

    def open(self, problem: Problem) -> Suggester:
        """A suggester for a problem.

        Raises:
            ConfigError: The problem has several objectives, conditions or choices, or the generations
                do not divide the steps.
        """
        check_problem("pb2", problem, choices=False)
        members = self.members(problem.steps)
        return PopulationSuggester(problem, members, self.quantile, self)

    def explore(self, exploration: Exploration) -> dict[str, Any]:
        """The values of the copy for its next generation."""
        space, source = exploration.space, exploration.source
        assigned = [unit_values(space, values) for values in exploration.assigned()]
        dimensions = len(space.parameters)
        point = best_point(
            gains_of(exploration, self.most_rows),
            generation=exploration.generation,
            level=_limited(source.values[0]),
            assigned=np.array(assigned).reshape(-1, dimensions),
            random=exploration.random,
        )
        return space.decode(point.tolist())


def _limited(score: float) -> float:
    """A score whose differences are finite."""
    return min(max(score, -LARGEST), LARGEST)


def gains_of(exploration: Exploration, most: int) -> TimeVaryingData:
    """What each part of a training gained, of the latest parts.

    Args:
        exploration: The trials of earlier generations.
        most: Largest number of parts.
    """
    population, history = exploration.population, exploration.history
    rows: list[tuple[int, float, float, NDArray[np.float64]]] = []
    for number in sorted(history):
        if number == 0:
            # The default configuration is trained whole, and belongs to no generation.
            continue
        generation, _ = population.locate(number)
        trial, parent = history[number], exploration.parents(number)
        # Nothing tells the score before the first step: there, the first part has no row.
        if parent is None:
            continue
        before, after = (_limited(t.values[0]) for t in (history[parent], trial))
        point = unit_values(exploration.space, trial.parameters)
        rows.append((generation, before, after - before, point))
    kept = rows[-most:]
    dimensions = len(exploration.space.parameters)
    return TimeVaryingData(
        generations=np.array([row[0] for row in kept], dtype=np.float64),
        levels=np.array([row[1] for row in kept]),
        gains=np.array([row[2] for row in kept]),
        points=np.array([row[3] for row in kept]).reshape(-1, dimensions),
    )
