"""The definition of a sweep: search space, tuner, pruner, limits and objective."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf
from typing import Annotated, Any, Literal

from annotated_types import Ge, Interval

from rlexp.errors import ConfigError
from rlexp.protocol.earlier_sweeps import EarlierSweep
from rlexp.protocol.front_rule import (
    KEY,
    REFERENCE_KEY,
    UTILITY_KEY,
    check_reference,
    check_utility_weights,
    read_rule,
)
from rlexp.protocol.identity import Plain, identifying, short_name
from rlexp.protocol.measures import RETURN
from rlexp.protocol.space import Space

OBJECTIVES = ("score", "final", "auc", "last_window", "spread", "steps_to_threshold")
"""Objectives that every run has; any other objective names a measure of the final evaluation."""
LOWEST_SCORE = "lowest_score"
"""The score, minimised: an objective of imported studies and of older sweeps. In new sweeps, the
declaration of a measure has the direction."""
RECORDED_OBJECTIVES = (*OBJECTIVES, LOWEST_SCORE)
"""Objectives in records that are no measures."""
MINIMISED = frozenset({LOWEST_SCORE, "spread", "steps_to_threshold"})
"""Those of them whose lower values are better, whatever the score is."""
PROPOSALS = "proposals"
"""The name in the place of a tuner's where the trials of a sweep come from outside: of a stream."""
Direction = Literal["maximize", "minimize"]
Allocation = Literal["two_stage", "fixed", "racing"]
Aggregate = Literal["mean", "median", "iqm"]
Normalisation = Literal["anchors", "ranks"]

LATER = (
    *("continuation", "screening_episodes", "enqueue", "warm_start", "stop_at_regret"),
    *("normalisation", "screening_tasks", "choose", "reference_point", "utility_weights"),
)
"""Settings that older sweeps do not have; unset, they are in no record and in no definition."""
OF_THE_COMMAND = ("trials", "full_runs", "steps", "hours", "storage")
"""Settings that a later command may change: the limits of the search and its storage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPlan:
    """The settings `sweep.…` of a configuration.

    Attributes:
        trials: Largest number of configurations, including the default.
        full_runs: The same limit in full-run equivalents: a configuration at the full budget
            counts as one, for any number of seeds.
        steps: The same limit in environment steps, over configurations and seeds.
        hours: The same limit in hours of wall-clock time; such a sweep is not repeatable.
        allocation: `two_stage` screens each configuration on one tuning seed and scores the best
            on all of them; `fixed` runs each configuration on all tuning seeds; `racing` runs the
            seeds one by one and drops a configuration that Wilcoxon's test finds worse than the
            best.
        promoted: Fraction of the screened configurations that continue on all tuning seeds.
        screening_episodes: Episodes of the final evaluation of a screening run, which is the run of a
            trial on the first tuning seed in `two_stage`; null: as many as in every other run.
        objective: The objective, or several; `score` is the score that the budget declares. A
            name that is not in `RECORDED_OBJECTIVES` is a measure: its mean over the final episodes.
        aggregate: Aggregate over the tuning seeds of a trial.
        finalists: Number of trials that are scored again on selection seeds.
        lag: Trial n is suggested from the trials 0 … n − 1 − lag; null: 2 × workers − 1.
        failures: Value of a failed trial for the tuner: `worst` ranks it below every other trial;
            `exclude` hides it. A failed trial never wins.
        stop_after: Number of consecutive runs with the same failure that stop the sweep.
        continuation: Whether a trial that repeats a configuration with more steps continues its runs
            from their states; null: each run begins at step 0, as in older sweeps.
        enqueue: Configurations that are tried first, as values of the searched parameters; a parameter
            that an entry leaves out has its default.
        warm_start: Earlier sweeps over the same parameters, whose trials inform the search.
        stop_at_regret: The search ends when more trials could gain at most this much, in units of the
            objective; null: the limits alone end it.
        normalisation: How scores on several tasks become comparable: `anchors` makes the score of a
            random policy 0 and the threshold of the task 1; `ranks` takes the share of the other trials
            that a run is better than. Null: `anchors` on several tasks; a sweep on one task has none.
        screening_tasks: Tasks on which `two_stage` screens each configuration, the first of those that
            are given; null: 1.
        choose: The rule by which a policy of the front of several objectives is chosen (`FrontRule`);
            null: `first`. With one objective, and in older sweeps, there is none, and no front is tested.
        reference_point: The value of each objective from which hypervolumes are measured; null: derived
            from the trials, by `stats.pareto.default_reference`.
        utility_weights: Vectors of weights over which the expected utility of a front is a mean; null:
            evenly spaced ones.
        storage: URL of a database to which the sweep is mirrored as an Optuna study; null: a
            journal file in the sweep's folder.
    """

    trials: Annotated[int, Ge(1)]
    full_runs: Annotated[float, Interval(gt=0, lt=inf)] | None
    steps: Annotated[int, Ge(1)] | None
    hours: Annotated[float, Interval(gt=0, lt=inf)] | None
    allocation: Allocation
    promoted: Annotated[float, Interval(gt=0, le=1)]
    objective: str | tuple[str, ...]
    aggregate: Aggregate
    finalists: Annotated[int, Ge(1)]
    lag: Annotated[int, Ge(0)] | None
    failures: Literal["worst", "exclude"]
    stop_after: Annotated[int, Ge(2)]
    storage: str | None
    continuation: bool | None = None
    screening_episodes: Annotated[int, Ge(1)] | None = None
    enqueue: tuple[Mapping[str, Any], ...] | None = None
    warm_start: str | tuple[str, ...] | None = None
    stop_at_regret: Annotated[float, Interval(gt=0, lt=inf)] | None = None
    normalisation: Normalisation | None = None
    screening_tasks: Annotated[int, Ge(1)] | None = None
    choose: str | Mapping[str, Mapping[str, float]] | None = None
    reference_point: Mapping[str, float] | None = None
    utility_weights: tuple[tuple[float, ...], ...] | None = None

    def __post_init__(self) -> None:
        """Refuse wrong objectives, and episodes of a screening that the allocation does not have."""
        self._check_screening()
        if not self.objectives or len(set(self.objectives)) < len(self.objectives):
            raise ConfigError("sweep.objective must name one thing, or several different ones")
        for name in self.objectives:
            if name == RETURN or not name.strip() or not name.isprintable():
                raise ConfigError(
                    f"sweep.objective={name!r} must be {', '.join(OBJECTIVES)}, or the name of a "
                    "measure, such as success",
                    code="unknown_value",
                    key="sweep.objective",
                    allowed=OBJECTIVES,
                )

        if self.stop_at_regret is not None and len(self.objectives) > 1:
            raise ConfigError(
                f"sweep.stop_at_regret={self.stop_at_regret:g} is a number of one objective, and "
                f"sweep.objective names {len(self.objectives)}: leave it out, or name one objective",
                key="sweep.stop_at_regret",
            )
        self._check_front()

    def _check_front(self) -> None:
        """Refuse a rule, a reference point or weights that do not fit the objectives."""
        settings = {
            KEY: self.choose,
            REFERENCE_KEY: self.reference_point,
            UTILITY_KEY: self.utility_weights,
        }
        for key, value in settings.items():
            if value is not None and len(self.objectives) < 2:
                raise ConfigError(
                    f"{key} is for a front of several objectives, and sweep.objective names only "
                    f"{self.objectives[0]}: leave it out, or write sweep.objective=[FIRST,SECOND]",
                    key=key,
                )
        if self.choose is not None:
            read_rule(self.choose, self.objectives)
        if self.reference_point is not None:
            check_reference(self.reference_point, self.objectives)
        if self.utility_weights is not None:
            check_utility_weights(self.utility_weights, self.objectives)

    def _check_screening(self) -> None:
        if self.screening_episodes is not None and self.allocation != "two_stage":
            raise ConfigError(
                f"sweep.screening_episodes={self.screening_episodes} is for screening runs, and "
                f"sweep.allocation={self.allocation} compares runs on equal numbers of episodes: "
                "leave it out, or set sweep.allocation=two_stage",
                key="sweep.screening_episodes",
            )

    @property
    def objectives(self) -> tuple[str, ...]:
        """The objectives; the first one takes precedence."""
        return self.objective if isinstance(self.objective, tuple) else (self.objective,)

    @property
    def earlier(self) -> tuple[str, ...]:
        """The names of the earlier sweeps."""
        names = self.warm_start or ()
        return (names,) if isinstance(names, str) else names

    def definition(self) -> dict[str, Any]:
        """The settings that a later command may not change."""
        return {k: value for k, value in self.plain().items() if k not in OF_THE_COMMAND}

    def plain(self) -> dict[str, Any]:
        """The settings as JSON values, without unset ones that older sweeps do not have."""
        settings = {**asdict(self), "objective": list(self.objectives)}
        if self.enqueue is not None:
            settings["enqueue"] = [dict(parameters) for parameters in self.enqueue]
        if self.warm_start is not None:
            settings["warm_start"] = list(self.earlier)
        if self.utility_weights is not None:
            settings["utility_weights"] = [list(weights) for weights in self.utility_weights]
        return {k: v for k, v in settings.items() if k not in LATER or v is not None}


def directions(objectives: Sequence[str], minimised: Collection[str]) -> tuple[Direction, ...]:
    """The direction of optimisation of each objective, in the words of Optuna."""
    return tuple("minimize" if name in minimised else "maximize" for name in objectives)


def oriented(
    values: Sequence[float], objectives: Sequence[str], minimised: Collection[str]
) -> tuple[float, ...]:
    """Values of the objectives with signs such that greater is better.

    Called with its result, it returns the values in their units.
    """
    pairs = zip(objectives, values, strict=True)
    return tuple(-value if name in minimised else value for name, value in pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepTask:
    """One of several tasks of a sweep, and how its scores become comparable with those of the others.

    Attributes:
        task: The name of the task.
        low: The score that becomes 0, in units of the score.
        high: The score that becomes 1; below `low` where lower scores are better.
    """

    task: str
    low: float
    high: float

    def normalised(self, score: float) -> float:
        """The share of the way from `low` to `high`: greater is better."""
        return (score - self.low) / (self.high - self.low)

    def plain(self) -> dict[str, Any]:
        """The entry of the task in `experiment.json`."""
        return {"task": self.task, "low": self.low, "high": self.high}

    @classmethod
    def from_plain(cls, mapping: Mapping[str, Any]) -> "SweepTask":
        """The task of a mapping of JSON values; the inverse of `plain`.

        Raises:
            KeyError: A field is missing.
        """
        low, high = float(mapping["low"]), float(mapping["high"])
        return cls(task=str(mapping["task"]), low=low, high=high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """The search for the configurations of an experiment; `plan.lag` is always a number here.

    Attributes:
        name: The name of the definition, or empty.
        space: The search space.
        tuner: The settings of the tuner.
        pruner: The settings of the pruner.
        plan: The settings of the search.
        guess: The configuration of the guesses of all priors; None without a prior.
        earlier: What was taken over from the sweeps that `plan.warm_start` names.
        tasks: The tasks for which one configuration is searched; empty in a sweep on one task.
    """

    name: str
    space: Space
    tuner: Plain
    pruner: Plain
    plan: SweepPlan
    guess: Mapping[str, Any] | None = None
    earlier: tuple[EarlierSweep, ...] = ()
    tasks: tuple["SweepTask", ...] = ()

    @property
    def is_stream(self) -> bool:
        """Whether the trials are candidates that `rlexp propose` was given."""
        return short_name(self.tuner) == PROPOSALS

    def plain(self) -> dict[str, Any]:
        """The entry of the sweep in `experiment.json`."""
        plan = {**self.plan.plain(), "storage": None}
        return {
            "name": self.name,
            "space": self.space.plain(),
            "tuner": self.tuner,
            "pruner": self.pruner,
            "plan": plan,
            **({} if self.guess is None else {"guess": dict(self.guess)}),
            **({"earlier": [sweep.plain() for sweep in self.earlier]} if self.earlier else {}),
            # Files of sweeps on one task keep their bytes.
            **({"tasks": [task.plain() for task in self.tasks]} if self.tasks else {}),
        }

    @classmethod
    def from_plain(cls, mapping: Mapping[str, Any]) -> "Sweep":
        """The sweep of a mapping of JSON values; the inverse of `plain`.

        Raises:
            KeyError: A field is missing.
        """
        plan = {**mapping["plan"], "objective": tuple(mapping["plan"]["objective"])}
        if plan.get("enqueue") is not None:
            plan["enqueue"] = tuple(plan["enqueue"])
        if plan.get("warm_start") is not None:
            plan["warm_start"] = tuple(plan["warm_start"])
        if plan.get("utility_weights") is not None:
            plan["utility_weights"] = tuple(map(tuple, plan["utility_weights"]))
        return cls(
            name=mapping["name"],
            space=Space.from_plain(mapping["space"]),
            tuner=mapping["tuner"],
            pruner=mapping["pruner"],
            plan=SweepPlan(**plan),
            guess=mapping.get("guess"),
            earlier=tuple(map(EarlierSweep.from_plain, mapping.get("earlier", ()))),
            tasks=tuple(map(SweepTask.from_plain, mapping.get("tasks", ()))),
        )

    def definition(self) -> dict[str, Any]:
        """The definition of the search; its limits are not part of it."""
        return {
            "space": self.space.plain(),
            "tuner": identifying(self.tuner),
            "pruner": identifying(self.pruner),
            "plan": self.plan.definition(),
            **({"tasks": [task.plain() for task in self.tasks]} if self.tasks else {}),
        }
