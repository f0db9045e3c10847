"""A sweep as asked for: what is searched, by whom, for how long, and by which number."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf
from typing import Annotated, Any, Literal

from annotated_types import Ge, Interval

from rlexp.errors import ConfigError
from rlexp.protocol.identity import Plain, identifying
from rlexp.protocol.space import Space

Objective = Literal["score", "final", "auc", "last_window", "spread", "steps_to_threshold"]
"""What can be optimised: a number of each run, or its standard deviation over tuning seeds."""
MINIMISED = frozenset({"spread", "steps_to_threshold"})
Direction = Literal["maximize", "minimize"]
Allocation = Literal["two_stage", "fixed", "racing"]
Aggregate = Literal["mean", "median", "iqm"]

OF_THE_COMMAND = ("trials", "full_runs", "steps", "hours", "storage")
"""Settings that a later command may change: how far to go, and where to mirror."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPlan:
    """What `sweep.…` says.

    Attributes:
        trials: How many configurations to try at most, the default one included.
        full_runs: The same limit in full-run equivalents: a configuration at the full budget is
            one, whatever the number of its seeds.
        steps: The same limit in environment steps, over configurations and seeds.
        hours: The same limit in hours of wall-clock; such a sweep is not repeatable.
        allocation: `two_stage` screens each configuration on one tuning seed and scores the best
            on all of them; `fixed` runs all tuning seeds of each; `racing` runs them one by one
            and drops what Wilcoxon's test finds worse than the best.
        promoted: Share of the screened configurations that goes on to all tuning seeds.
        objective: What is optimised, the score as declared by the budget; or several things.
        aggregate: Over the tuning seeds of a trial.
        finalists: Trials that are scored again on selection seeds.
        lag: Trial n is suggested from the trials 0 … n − 1 − lag; null: 2 × workers − 1.
        failures: `worst` tells the tuner that a failed trial is worse than every other; with
            `exclude` it never hears of it. Neither can win.
        stop_after: Runs that fail alike, one after the other, after which the sweep stops.
        storage: URL of the database that the sweep is mirrored to as an Optuna study; null: a
            journal file in the sweep's folder.
    """

    trials: Annotated[int, Ge(1)]
    full_runs: Annotated[float, Interval(gt=0, lt=inf)] | None
    steps: Annotated[int, Ge(1)] | None
    hours: Annotated[float, Interval(gt=0, lt=inf)] | None
    allocation: Allocation
    promoted: Annotated[float, Interval(gt=0, le=1)]
    objective: Objective | tuple[Objective, ...]
    aggregate: Aggregate
    finalists: Annotated[int, Ge(1)]
    lag: Annotated[int, Ge(0)] | None
    failures: Literal["worst", "exclude"]
    stop_after: Annotated[int, Ge(2)]
    storage: str | None

    def __post_init__(self) -> None:
        """Refuse objectives that are none, or twice the same."""
        if not self.objectives or len(set(self.objectives)) < len(self.objectives):
            raise ConfigError("sweep.objective must name one thing, or several different ones")

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """The objectives, one or several; the first one leads."""
        return self.objective if isinstance(self.objective, tuple) else (self.objective,)

    def definition(self) -> dict[str, Any]:
        """The part that a later command may not change."""
        plain = {key: value for key, value in asdict(self).items() if key not in OF_THE_COMMAND}
        return {**plain, "objective": list(self.objectives)}


def directions(objectives: Sequence[Objective]) -> tuple[Direction, ...]:
    """Which way each objective is better."""
    return tuple("minimize" if name in MINIMISED else "maximize" for name in objectives)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """How the configurations of an experiment are found. `plan.lag` is a number here."""

    name: str
    space: Space
    tuner: Plain
    pruner: Plain
    plan: SweepPlan

    def plain(self) -> dict[str, Any]:
        """What `experiment.json` says of it."""
        plan = {**asdict(self.plan), "objective": list(self.plan.objectives), "storage": None}
        return {
            "name": self.name,
            "space": self.space.plain(),
            "tuner": self.tuner,
            "pruner": self.pruner,
            "plan": plan,
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "Sweep":
        """The inverse of `plain`.

        Raises:
            KeyError: A field is missing.
        """
        plan = {**plain["plan"], "objective": tuple(plain["plan"]["objective"])}
        return cls(
            name=plain["name"],
            space=Space.from_plain(plain["space"]),
            tuner=plain["tuner"],
            pruner=plain["pruner"],
            plan=SweepPlan(**plan),
        )

    def definition(self) -> dict[str, Any]:
        """The question; how far the search goes may change."""
        return {
            "space": self.space.plain(),
            "tuner": identifying(self.tuner),
            "pruner": identifying(self.pruner),
            "plan": self.plan.definition(),
        }
