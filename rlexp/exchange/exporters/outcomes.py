"""What is exported of a run, and the seeds that labels have in common."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rlexp.errors import ProtocolError
from rlexp.records.run import RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A planned run, whether it has a score or not.

    Attributes:
        run: Its name as commands take it (`EXPERIMENT/RUN`).
        label: The name under which it is compared.
        task: The task that it is scored on.
        state: Where it stands, in words (`failed (nan)`).
        score: In units of the return; nothing where it has none, for a failure is no score.
        record: What is known of it.
    """

    run: str
    label: str
    task: str
    state: str
    score: float | None
    record: RunRecord

    @property
    def seed(self) -> int:
        """Its seed's index in the phase."""
        return self.record.spec.seed


@dataclass(frozen=True, slots=True, kw_only=True)
class Rectangle:
    """Runs with a score, of which every label has the same seeds on every task.

    Attributes:
        tasks: In order of their names.
        seeds: Of each label, rising.
        runs: By label, task and seed.
        left_out: Runs with a score that other tasks or labels have no seed for.
    """

    tasks: tuple[str, ...]
    seeds: Mapping[str, tuple[int, ...]]
    runs: Mapping[tuple[str, str, int], Outcome]
    left_out: tuple[Outcome, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels, in the order of asking."""
        return tuple(self.seeds)


def rectangle(
    outcomes: Sequence[Outcome], *, format_name: str, common: bool, across_labels: bool = False
) -> Rectangle:
    """Bring the runs that have a score into the shape that other tools need.

    Args:
        outcomes: Every planned run.
        format_name: What needs it, for the refusal.
        common: Whether to take only the seeds that every task has, instead of refusing.
        across_labels: Whether all labels need the same seeds, too.

    Raises:
        ProtocolError: A label was not asked for on a task, or seeds differ; says which.
    """
    labels = tuple(dict.fromkeys(o.label for o in outcomes))
    tasks = tuple(sorted({o.task for o in outcomes}))
    _check_asked(outcomes, labels, tasks, format_name)
    scored = {(o.label, o.task, o.seed): o for o in outcomes if o.score is not None}
    cells = {
        (b, t): {s for (x, y, s) in scored if (x, y) == (b, t)} for b in labels for t in tasks
    }
    groups = [labels] if across_labels else [(label,) for label in labels]
    seeds: dict[str, tuple[int, ...]] = {}
    for group in groups:
        own = {cell: found for cell, found in cells.items() if cell[0] in group}
        shared = tuple(sorted(set.intersection(*own.values())))
        if not common or not shared:
            _check_same(own, shared, format_name)
        seeds |= dict.fromkeys(group, shared)
    runs = {key: o for key, o in scored.items() if key[2] in seeds[key[0]]}
    left_out = tuple(o for key, o in scored.items() if key not in runs)
    return Rectangle(tasks=tasks, seeds=seeds, runs=runs, left_out=left_out)


def _check_asked(
    outcomes: Iterable[Outcome], labels: Sequence[str], tasks: Sequence[str], format_name: str
) -> None:
    asked = {(o.label, o.task) for o in outcomes}
    lacking = [(label, task) for label in labels for task in tasks if (label, task) not in asked]
    if lacking:
        label, task = lacking[0]
        raise ProtocolError(
            f"{format_name} needs every label on the same tasks, and {label} was not asked for on "
            f"{task}: name labels that have it (EXPERIMENT/LABEL), or tasks with --task",
        )


def _check_same(
    cells: Mapping[tuple[str, str], set[int]], shared: Sequence[int], format_name: str
) -> None:
    fewest, most = min(cells, key=lambda c: len(cells[c])), max(cells, key=lambda c: len(cells[c]))
    if not cells[fewest]:
        raise ProtocolError(
            f"{fewest[0]} has no score on {fewest[1]}, and {format_name} has no place for a "
            "missing one: leave it out (EXPERIMENT/LABEL, --task), or bring its runs to their end",
        )
    other = next((c for c, found in cells.items() if found != set(shared)), None)
    if other is None:
        return
    differ = f"{_told(most, cells)} and {_told(fewest, cells)}"
    if cells[most] == cells[fewest] or len(cells[most]) == len(cells[fewest]):
        differ = f"different seeds on {most[1]} and {other[1]}"
    hint = (
        f"--common-seeds takes the {len(shared)} that all of them have"
        if shared
        else "they have no seed in common"
    )
    raise ProtocolError(
        f"{format_name} needs the same seeds everywhere, and there are {differ}: {hint}"
    )


def _told(cell: tuple[str, str], cells: Mapping[tuple[str, str], set[int]]) -> str:
    return f"{len(cells[cell])} scores of {cell[0]} on {cell[1]}"
