"""The common budget of all imported runs of a task, which makes their scores comparable."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median
from typing import Any

from rlexp.errors import ConfigError, ProtocolError
from rlexp.exchange.importers.imported_study import EvaluationPoint, ImportedRun, ReturnKind
from rlexp.protocol.budget import Budget
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.seeds import MAXIMUM_EVALUATIONS

BINS = 100
"""Points of a curve of training episodes; each holds the episodes since the point before it."""
TOLERANCE = 0.05
"""Share of the budget by which a run may be shorter or longer."""


def is_complete(points: Sequence[EvaluationPoint], steps: int) -> bool:
    """Whether a run reached its budget, or came so near that its next point would exceed it."""
    if not points:
        return False
    last = points[-1].step
    before = points[-2].step if len(points) > 1 else 0
    return last >= steps * (1 - TOLERANCE) or (last > before > 0 and 2 * last - before > steps)


def bin_points(points: Sequence[EvaluationPoint], steps: int) -> list[EvaluationPoint]:
    """One point at each hundredth of the budget, with all episodes since the point before it.

    Final evaluations do not belong to the curve; they follow it unchanged.
    """
    final = [point for point in points if point.final]
    points = [point for point in points if not point.final]
    bins: dict[int, list[EvaluationPoint]] = {}
    for point in points:
        # Integers only: a rounded quotient could put a step at a border into the next bin.
        number = max(1, -(-point.step * BINS // steps))
        bins.setdefault(-(-number * steps // BINS), []).append(point)
    last = points[-1].step if points else 0
    return [*(_bin(members, min(end, last)) for end, members in bins.items()), *final]


def _bin(points: Sequence[EvaluationPoint], step: int) -> EvaluationPoint:
    have_lengths = all(point.lengths for point in points)
    return EvaluationPoint(
        step=step,
        returns=tuple(value for point in points for value in point.returns),
        lengths=tuple(n for point in points for n in point.lengths) if have_lengths else (),
        time=points[-1].time,
    )


def with_final_evaluation(
    points: tuple[EvaluationPoint, ...], budget: Budget
) -> tuple[EvaluationPoint, ...]:
    """The curve, with a final evaluation if the score needs one.

    That is the evaluation marked as final, else the last point of the curve.
    """
    curve = tuple(point for point in points if not point.final)
    if budget.score != "final":
        return curve
    final = points[-1:] if len(curve) == len(points) else tuple(p for p in points if p.final)[-1:]
    return (*curve, *(replace(point, final=True) for point in final))


MOST_POINTS = 2000
"""Evaluations of a run beyond which they are binned like training episodes."""
SCORES = ("final", "auc", "last_window")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedExperimentOptions:
    """The user's options for the imported experiment.

    Attributes:
        name: Name of the experiment.
        steps: The budget of every task; default: what the runs were planned with or reached.
        score: The rule of the score; default: `final` if every run that reached the
            budget has a final evaluation.
        seed: Seed of the first run if the sources name no seeds.
    """

    name: str
    steps: int | None = None
    score: str | None = None
    seed: int | None = None


def budget_of(
    task: str,
    runs: Sequence[ImportedRun],
    options: ImportedExperimentOptions,
    earlier: Configuration | None,
) -> tuple[Budget, bool]:
    """The common budget of a task's runs, and whether their curves are binned.

    Raises:
        ConfigError: No run has a return, or the score needs evaluations that these runs lack.
        ProtocolError: The runs imported before have another budget.
    """
    if earlier is not None:
        _check_earlier(task, runs, options, earlier)
        return earlier.budget, bool(earlier.algorithm["imported"]["binned"])
    steps = options.steps or max((run.steps or last_step(run) for run in runs), default=0)
    if steps < 1:
        raise ConfigError(
            f"no run on {task} has a return after step 0: there is nothing to import"
        )
    of_training = runs[0].returns.of_training
    is_binned = of_training or any(len(run.points) > MOST_POINTS for run in runs)
    marked = not of_training and _marks_final(runs, steps)
    score = options.score or ("final" if marked else "last_window")
    if score == "final" and of_training:
        raise ConfigError(
            f"--score final needs evaluations, and the returns on {task} are training episodes: "
            "use last_window or auc"
        )
    deterministic = {run.deterministic for run in runs}
    fields: dict[str, Any] = {
        "steps": steps,
        "evaluation_every": -(-steps // BINS) if is_binned else _spacing(runs, steps),
        "evaluation_episodes": _episodes(runs, final=False),
        "evaluation_deterministic": deterministic.pop() if len(deterministic) == 1 else None,
        "final_episodes": _episodes(runs, final=True) if score == "final" else None,
        "score": score,
    }
    return Budget(**fields), is_binned


def _check_earlier(
    task: str,
    runs: Sequence[ImportedRun],
    options: ImportedExperimentOptions,
    earlier: Configuration,
) -> None:
    budget = earlier.budget
    for option, value, imported in (
        ("steps", options.steps, budget.steps),
        ("score", options.score, budget.score),
    ):
        if value not in {None, imported}:
            raise ProtocolError(
                f"--{option} {value}: the runs on {task} imported before have {imported}; "
                "choose another name with --experiment"
            )
    longest = max(map(last_step, runs))
    if options.steps is None and longest > budget.steps * (1 + TOLERANCE):
        raise ProtocolError(
            f"these runs on {task} have {longest:,} steps, and those that were imported before "
            f"{budget.steps:,}: cut them with --steps {budget.steps}, or choose another name with "
            "--experiment"
        )


def last_step(run: ImportedRun) -> int:
    """The last step of a run."""
    ends = [run.points[-1].step] if run.points else []
    return max([*ends, run.trouble.step if run.trouble else 0])


def _marks_final(runs: Sequence[ImportedRun], steps: int) -> bool:
    """Whether every run that reached the budget has an evaluation marked as final.

    A run that failed or ended early never has a score. It must not decide how others are scored.
    """
    finished = [run for run in runs if run.trouble is None and is_complete(run.points, steps)]
    return bool(finished) and all(map(_has_final, finished))


def _has_final(run: ImportedRun) -> bool:
    return any(point.final for point in run.points)


def _spacing(runs: Sequence[ImportedRun], steps: int) -> int:
    """The median number of steps between evaluations."""
    gaps = [
        after.step - before.step
        for run in runs
        for before, after in pairwise([p for p in run.points if not p.final])
        if after.step > before.step
    ]
    usual = int(median(gaps)) if gaps else steps
    return max(1, min(max(usual, -(-steps // MAXIMUM_EVALUATIONS)), steps))


def _episodes(runs: Sequence[ImportedRun], *, final: bool) -> int | None:
    """The median number of episodes in an evaluation; None if it is unknown."""
    if runs[0].returns is not ReturnKind.EVALUATIONS:
        return None
    marked = final and any(map(_has_final, runs))
    counts = [len(p.returns) for run in runs for p in run.points if p.final is marked]
    return int(median(counts)) if counts else None
