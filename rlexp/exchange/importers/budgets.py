"""The one budget of a task's imported runs, so that their scores may stand together."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median
from typing import Any

from rlexp.errors import ConfigError, ProtocolError
from rlexp.exchange.importers.study import ImportedRun, Point, Returns
from rlexp.protocol.budget import Budget
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.seeds import MAXIMUM_EVALUATIONS

BINS = 100
"""Points of a curve of training episodes: each holds the episodes that ended since the last."""
TOLERANCE = 0.05
"""The part of the budget that a run may lack, or have beyond it."""


def is_complete(points: Sequence[Point], steps: int) -> bool:
    """Whether a run has come to its end, or so near that its next point would be beyond it."""
    if not points:
        return False
    last = points[-1].step
    before = points[-2].step if len(points) > 1 else 0
    return last >= steps * (1 - TOLERANCE) or (last > before > 0 and 2 * last - before > steps)


def bin_points(points: Sequence[Point], steps: int) -> list[Point]:
    """Every hundredth of the budget, with all episodes that ended since the point before it.

    Final evaluations are no part of the curve, and stay as they are behind it.
    """
    final = [point for point in points if point.final]
    points = [point for point in points if not point.final]
    bins: dict[int, list[Point]] = {}
    for point in points:
        number = max(1, -(-point.step * BINS // steps))
        bins.setdefault(-(-number * steps // BINS), []).append(point)
    last = points[-1].step if points else 0
    return [*(_bin(own, min(end, last)) for end, own in bins.items()), *final]


def _bin(points: Sequence[Point], step: int) -> Point:
    known = all(point.lengths for point in points)
    return Point(
        step=step,
        returns=tuple(value for point in points for value in point.returns),
        lengths=tuple(n for point in points for n in point.lengths) if known else (),
        time=points[-1].time,
    )


def with_final_evaluation(points: tuple[Point, ...], budget: Budget) -> tuple[Point, ...]:
    """Points with the final evaluation where the score needs one: the last, unless one is named."""
    curve = tuple(point for point in points if not point.final)
    if budget.score != "final":
        return curve
    final = points[-1:] if len(curve) == len(points) else tuple(p for p in points if p.final)[-1:]
    return (*curve, *(replace(point, final=True) for point in final))


MOST_POINTS = 2000
"""Evaluations of a run from which on they are put together as episodes of training are."""
SCORES = ("final", "auc", "last_window")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the user says of the experiment.

    Attributes:
        name: Its name.
        steps: The budget of every task; by default, what the runs were asked for or reached.
        score: What the score of a run is; by default `final` where a source names such episodes.
        seed: Of the first run, where sources name no seeds.
    """

    name: str
    steps: int | None = None
    score: str | None = None
    seed: int | None = None


def budget_of(
    task: str, runs: Sequence[ImportedRun], asked: Asked, known: Configuration | None
) -> tuple[Budget, bool]:
    """The one budget of a task, and whether its curves are put together in bins.

    Raises:
        ConfigError: No run holds a return, or the score needs what these runs do not have.
        ProtocolError: What was imported before has another budget.
    """
    if known is not None:
        _check_known(task, runs, asked, known)
        return known.budget, bool(known.algorithm["imported"]["binned"])
    steps = asked.steps or max((run.steps or last_step(run) for run in runs), default=0)
    if steps < 1:
        raise ConfigError(
            f"no run on {task} holds a return after step 0: there is nothing to import"
        )
    of_training = runs[0].returns.of_training
    is_binned = of_training or any(len(run.points) > MOST_POINTS for run in runs)
    marked = not of_training and all(map(_has_final, runs))
    score = asked.score or ("final" if marked else "last_window")
    if score == "final" and of_training:
        raise ConfigError(
            f"--score final needs evaluations, and those of {task} are training episodes: use "
            "last_window or auc"
        )
    deterministic = {run.deterministic for run in runs}
    plain: dict[str, Any] = {
        "steps": steps,
        "evaluation_every": -(-steps // BINS) if is_binned else _spacing(runs, steps),
        "evaluation_episodes": _episodes(runs, final=False),
        "evaluation_deterministic": deterministic.pop() if len(deterministic) == 1 else None,
        "final_episodes": _episodes(runs, final=True) if score == "final" else None,
        "score": score,
    }
    return Budget(**plain), is_binned


def _check_known(
    task: str, runs: Sequence[ImportedRun], asked: Asked, known: Configuration
) -> None:
    budget = known.budget
    for option, value, there in (
        ("steps", asked.steps, budget.steps),
        ("score", asked.score, budget.score),
    ):
        if value not in {None, there}:
            raise ProtocolError(
                f"--{option} {value}: what was imported of {task} before has {there}; choose "
                "another name with --experiment"
            )
    longest = max(map(last_step, runs))
    if asked.steps is None and longest > budget.steps * (1 + TOLERANCE):
        raise ProtocolError(
            f"these runs on {task} have {longest:,} steps, and those that were imported before "
            f"{budget.steps:,}: cut them with --steps {budget.steps}, or choose another name with "
            "--experiment"
        )


def last_step(run: ImportedRun) -> int:
    """How far a run came."""
    ends = [run.points[-1].step] if run.points else []
    return max([*ends, run.trouble.step if run.trouble else 0])


def _has_final(run: ImportedRun) -> bool:
    return any(point.final for point in run.points)


def _spacing(runs: Sequence[ImportedRun], steps: int) -> int:
    """The usual number of steps between evaluations."""
    gaps = [
        after.step - before.step
        for run in runs
        for before, after in pairwise([p for p in run.points if not p.final])
        if after.step > before.step
    ]
    usual = int(median(gaps)) if gaps else steps
    return max(1, min(max(usual, -(-steps // MAXIMUM_EVALUATIONS)), steps))


def _episodes(runs: Sequence[ImportedRun], *, final: bool) -> int | None:
    """The usual number of episodes of an evaluation, where it is known."""
    if runs[0].returns is not Returns.EVALUATIONS:
        return None
    marked = final and any(map(_has_final, runs))
    counts = [len(p.returns) for run in runs for p in run.points if p.final is marked]
    return int(median(counts)) if counts else None
