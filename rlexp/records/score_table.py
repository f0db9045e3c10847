"""Scores by label, task and seed, with a list of the missing ones."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rlexp.errors import ProtocolError
from rlexp.protocol.identity import Plain, canonical
from rlexp.protocol.seeds import Phase
from rlexp.records.run import RunRecord


@dataclass(frozen=True, slots=True)
class Entry:
    """A record with the label and task under which it is compared."""

    label: str
    task: str
    record: RunRecord


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """Scores of one phase: `cells[label, task][root, seed]`, in units of the return.

    A run without a score is in `missing` and in no cell.
    """

    phase: Phase
    cells: Mapping[tuple[str, str], Mapping[tuple[int, int], float]]
    missing: tuple[Entry, ...]

    @classmethod
    def from_records(cls, entries: Iterable[Entry], phase: Phase) -> "ScoreTable":
        """The scores of one phase, by cell.

        Raises:
            ProtocolError: A record is of another phase; two records of a cell share a seed; the
                records of a task differ in budget.
        """
        cells: dict[tuple[str, str], dict[tuple[int, int], float]] = {}
        missing: list[Entry] = []
        seen: set[tuple[str, str, int, int]] = set()
        budgets: dict[str, _First] = {}
        for entry in entries:
            spec = entry.record.spec
            if spec.phase is not phase:
                raise ProtocolError(
                    f"run {spec.name} is of phase {spec.phase}, not {phase}: "
                    "scores of different phases cannot be combined",
                )
            key = (entry.label, entry.task, spec.root, spec.seed)
            if key in seen:
                raise ProtocolError(
                    f"{entry.label} on {entry.task} has seed {spec.seed} twice: "
                    "give the configurations different labels",
                )
            seen.add(key)
            _same_budget(budgets, entry)
            cell = cells.setdefault((entry.label, entry.task), {})
            score = entry.record.score
            if score is None:
                missing.append(entry)
            else:
                cell[spec.root, spec.seed] = score
        return cls(phase, cells, tuple(missing))


@dataclass(frozen=True, slots=True)
class _First:
    """The budget of the first run of a task, as canonical JSON, and the label of that run.

    Attributes:
        text: The budget.
        label: The label.
        alike: Objects that are equal budgets, by their `id`; while they are here, no other has it.
    """

    text: str
    label: str
    alike: dict[int, Plain]


def _same_budget(firsts: dict[str, _First], entry: Entry) -> None:
    budget = entry.record.spec.budget
    first = firsts.get(entry.task)
    if first is None:
        firsts[entry.task] = _First(canonical(budget), entry.label, {id(budget): budget})
        return
    # Runs of one configuration share the budget object, which is encoded once.
    if id(budget) in first.alike:
        return
    if (text := canonical(budget)) != first.text:
        raise ProtocolError(
            f"{first.label} and {entry.label} have different budgets on {entry.task}: "
            f"{first.text} and {text}; compare only runs with equal budgets",
        )
    first.alike[id(budget)] = budget
