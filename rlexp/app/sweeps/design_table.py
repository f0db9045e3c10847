"""What designs of sweeps reached on published landscapes, and the design for a number of runs.

The table is made by `benchmarks/sweep_designs.py`: random search in two stages on ten tasks, in many
repeats. Scores are on the scale of each task, where 0 and 1 are the 5th and 95th percentile of its
configurations.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil
from pathlib import Path

TABLE = Path(__file__).parent / "sweep_designs.json"


@dataclass(frozen=True, slots=True)
class SweepDesign:
    """How a sweep spends its runs.

    Attributes:
        trials: Number of configurations, each screened on one tuning seed.
        tuning: Number of tuning seeds of a promoted trial.
        promoted: Share of the trials that is promoted; it does not count with one tuning seed.
        selection: Number of selection seeds.
        finalists: Number of trials on selection seeds.
    """

    trials: int
    tuning: int
    promoted: float
    selection: int
    finalists: int

    @property
    def promotions(self) -> int:
        """Number of trials on all tuning seeds, as the engine counts them."""
        if self.tuning == 1:
            return self.trials
        return max(ceil(self.promoted * self.trials - 1e-9), 1)

    @property
    def runs(self) -> int:
        """Number of runs of screening, promotion and selection."""
        finalists = min(self.finalists, self.promotions)
        promoted = self.promotions * (self.tuning - 1)
        return self.trials + promoted + finalists * self.selection


@dataclass(frozen=True, slots=True)
class DesignResult:
    """What a design reached: means over landscapes, and standard deviations between landscapes.

    Attributes:
        design: The design.
        true: Mean score of the winner on seeds that nothing was chosen on.
        optimism: Its tuning score minus that score.
        true_spread: Standard deviation of the true score between landscapes.
        optimism_spread: The same of the optimism.
    """

    design: SweepDesign
    true: float
    optimism: float
    true_spread: float
    optimism_spread: float


@dataclass(frozen=True, slots=True)
class DesignTable:
    """The table of designs.

    Attributes:
        landscapes: Number of landscapes.
        repeats: Number of searches of each design on each landscape.
        default: Mean score of a random configuration.
        deviation: Standard deviation of the runs of a good configuration, between seeds.
        results: Every design with its results.
    """

    landscapes: int
    repeats: int
    default: float
    deviation: float
    results: Sequence[DesignResult]

    def best_within(self, runs: int) -> DesignResult | None:
        """The design with the best true score of at most this number of runs; None if none is so small."""
        small = [result for result in self.results if result.design.runs <= runs]
        # Of equal designs, the cheaper one.
        return max(small, key=lambda r: (r.true, -r.design.runs), default=None)


@cache
def read_design_table() -> DesignTable:
    """Read the packaged table."""
    document = json.loads(TABLE.read_text())
    results = [
        DesignResult(SweepDesign(*row[:5]), *map(float, row[5:])) for row in document["designs"]
    ]
    return DesignTable(
        landscapes=document["landscapes"],
        repeats=document["repeats"],
        default=document["default"],
        deviation=document["deviation"],
        results=tuple(results),
    )
