"""Racing over seeds: a trial that is worse than the best trial gets no further seeds."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge, Interval

from rlexp.protocol.identity import Identity
from rlexp.pruners import PruningPoint
from rlexp.stats.sequential.racing import worse_than_best
from rlexp.text import format_p_value


@dataclass(frozen=True, slots=True, kw_only=True)
class Wilcoxon:
    """Ends a trial between two seeds if it is worse than the best trial on the same seeds.

    One-sided signed-rank test. With n seeds no p-value is below 2⁻ⁿ: at a threshold of 0.1, no
    trial ends before its fourth seed.

    Attributes:
        threshold: The p-value below which a trial is worse.
        startup_seeds: Fewest finished runs of a trial for a decision.
    """

    identity: ClassVar = Identity("pruner", "wilcoxon")

    threshold: Annotated[float, Interval(gt=0, lt=1)]
    startup_seeds: Annotated[int, Ge(1)]

    def prunes(self, point: PruningPoint) -> str | None:
        """The reason to end the trial here; None to continue."""
        if not point.ends_run or len(point.scores) < self.startup_seeds:
            return None
        p = worse_than_best(point.scores, point.best, self.threshold)
        if p is None:
            return None
        return f"worse than the best trial on {len(point.scores)} seeds ({format_p_value(p)})"
