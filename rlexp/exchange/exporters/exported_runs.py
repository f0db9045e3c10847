"""The exported view of a run, and the selection of runs with common seeds."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rlexp.errors import ProtocolError
from rlexp.records.run import RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedRun:
    """A planned run with or without a score.

    Attributes:
        run: Its name in commands (`EXPERIMENT/RUN`).
        label: The label under which it is compared.
        task: The task on which it is scored.
        state: Its state, with the kind of a failure (`failed (nan)`).
        score: The score in units of the return; None without a score, also for a failed run.
        record: The record of the run.
    """

    run: str
    label: str
    task: str
    state: str
    score: float | None
    record: RunRecord

    @property
    def seed(self) -> int:
        """The index of its seed within the phase."""
        return self.record.spec.seed


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonSeedRuns:
    """Runs with a score; each label has the same seeds on every task.

    Attributes:
        tasks: Tasks in the order of their names.
        seeds: Seeds of each label in rising order.
        runs: Runs by label, task and seed.
        left_out: Runs with a score whose seed is missing on another task or label.
    """

    tasks: tuple[str, ...]
    seeds: Mapping[str, tuple[int, ...]]
    runs: Mapping[tuple[str, str, int], ExportedRun]
    left_out: tuple[ExportedRun, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels in the order of the command."""
        return tuple(self.seeds)


def select_common_seeds(
    outcomes: Sequence[ExportedRun], *, format_name: str, common: bool, across_labels: bool = False
) -> CommonSeedRuns:
    """Select the runs with a score so that they fill a rectangle of seeds × tasks.

    Args:
        outcomes: Every planned run.
        format_name: Name of the format that needs it, for error messages.
        common: Whether to use only the seeds that every task has, instead of refusing others.
        across_labels: Whether all labels need the same seeds too.

    Raises:
        ProtocolError: A label was not planned on a task, or seeds differ; the message names them.
    """
    labels = tuple(dict.fromkeys(o.label for o in outcomes))
    tasks = tuple(sorted({o.task for o in outcomes}))
    _check_planned(outcomes, labels, tasks, format_name)
    scored = {(o.label, o.task, o.seed): o for o in outcomes if o.score is not None}
    cells = {
        (b, t): {s for (x, y, s) in scored if (x, y) == (b, t)} for b in labels for t in tasks
    }
    groups = [labels] if across_labels else [(label,) for label in labels]
    seeds: dict[str, tuple[int, ...]] = {}
    for group in groups:
        group_cells = {cell: cell_seeds for cell, cell_seeds in cells.items() if cell[0] in group}
        shared = tuple(sorted(set.intersection(*group_cells.values())))
        if not common or not shared:
            _check_same(group_cells, shared, format_name)
        seeds |= dict.fromkeys(group, shared)
    runs = {key: o for key, o in scored.items() if key[2] in seeds[key[0]]}
    left_out = tuple(o for key, o in scored.items() if key not in runs)
    return CommonSeedRuns(tasks=tasks, seeds=seeds, runs=runs, left_out=left_out)


def _check_planned(
    outcomes: Iterable[ExportedRun], labels: Sequence[str], tasks: Sequence[str], format_name: str
) -> None:
    planned = {(o.label, o.task) for o in outcomes}
    lacking = [(label, task) for label in labels for task in tasks if (label, task) not in planned]
    if lacking:
        label, task = lacking[0]
        raise ProtocolError(
            f"{format_name} needs every label on the same tasks, and {label} was not run on "
            f"{task}: choose labels that were run on it (EXPERIMENT/LABEL), or tasks with --task",
        )


def _check_same(
    cells: Mapping[tuple[str, str], set[int]], shared: Sequence[int], format_name: str
) -> None:
    fewest, most = min(cells, key=lambda c: len(cells[c])), max(cells, key=lambda c: len(cells[c]))
    if not cells[fewest]:
        raise ProtocolError(
            f"{fewest[0]} has no score on {fewest[1]}, and {format_name} cannot store missing "
            "scores: leave it out (EXPERIMENT/LABEL, --task), or complete its runs",
        )
    other = next((c for c, cell_seeds in cells.items() if cell_seeds != set(shared)), None)
    if other is None:
        return
    differ = f"{_scores_of(most, cells)} and {_scores_of(fewest, cells)}"
    if cells[most] == cells[fewest] or len(cells[most]) == len(cells[fewest]):
        differ = f"different seeds on {most[1]} and {other[1]}"
    hint = (
        f"--common-seeds uses the {len(shared)} seeds that all of them have"
        if shared
        else "they have no seed in common"
    )
    raise ProtocolError(
        f"{format_name} needs the same seeds everywhere, but there are {differ}: {hint}"
    )


def _scores_of(cell: tuple[str, str], cells: Mapping[tuple[str, str], set[int]]) -> str:
    return f"{len(cells[cell])} scores of {cell[0]} on {cell[1]}"
