"""The entries of a catalogue: ended runs in brief, and their form as columns of JSON values."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from rlexp.protocol.schema_1 import RunSpecSchema1
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import CONFIGURATION, RunSpec
from rlexp.records.events import Continued, Event, Failure, Refused, from_plain, to_plain
from rlexp.records.run import Brief, RunRecord, State
from rlexp.store.layout import RunPaths
from rlexp.store.run_stamps import Stamp, spans_of, stamps_in, text_of_stamps
from rlexp.store.runs import StoredRun

MOST_PROVENANCE = 1 << 23
"""Most bytes of different provenances in a catalogue; the others are read from their files."""
COPIED: Mapping[str, tuple[type, ...]] = {
    "reason": (str, type(None)),
    "attempts": (int,),
    "machine_failures": (int,),
    "step": (int,),
    "started": (float, type(None)),
    "ended": (float, type(None)),
    "seconds": (float, type(None)),
    "weights": (str, type(None)),
    "restarts": (int,),
    "begun": (int,),
    "spent": (int,),
    "seconds_spent": (float,),
    "acted": (dict, type(None)),
    "training_shift": (float, type(None)),
}
"""Fields of a record that are stored unchanged, and their types."""
COLUMNS: Mapping[str, tuple[type, ...]] = {
    "name": (str,),
    "configuration": (int,),
    "phase": (str,),
    "root": (int,),
    "seed": (int,),
    "state": (str,),
    "failure": (str, type(None)),
    "continuations": (list,),
    "refused": (list,),
    "score": (float, type(None)),
    "last": (float, type(None)),
    "measures": (dict,),
    "torn": (int,),
    "quarantined": (int,),
    "provenance": (int, type(None)),
    "entered": (bool,),
    **COPIED,
}
"""The columns of a catalogue, and their types."""
FINAL_STATES = frozenset({str(State.COMPLETED), str(State.PRUNED)})
"""The states of runs that no command executes again."""
OfKind = TypeVar("OfKind", bound=Event)


@dataclass(frozen=True, slots=True)
class CatalogueTable:
    """The entries of a catalogue as columns. Only the runs that a command asks for become objects.

    Attributes:
        checksum: The checksum of the file.
        columns: The columns in `COLUMNS`, with one value for each run.
        stamps: The stamps of all runs as they are packed, one behind another.
        ledger: The stamp of the ledger in which the attempts of the runs were looked up.
        configurations: The different configurations; runs hold an index into them.
        provenances: The different provenances, likewise.
    """

    checksum: bytes = b""
    columns: Mapping[str, Sequence[Any]] = field(
        default_factory=lambda: dict.fromkeys(COLUMNS, ())
    )
    stamps: bytes = b""
    ledger: Stamp = field(default_factory=list)
    configurations: Sequence[RunSpec] = ()
    provenances: Sequence[bytes] = ()
    rows: Mapping[str, int] = field(init=False)
    """The row of each run, by its name."""
    _spans: Sequence[slice] = field(init=False)
    _copied: Sequence[Sequence[Any]] = field(init=False)

    def __post_init__(self) -> None:
        """Number the rows, and pair the values of each that a record holds unchanged."""
        rows = {name: row for row, name in enumerate(self.columns["name"])}
        object.__setattr__(self, "rows", rows)
        object.__setattr__(self, "_spans", [*spans_of(self.columns["attempts"])])
        copied = [*zip(*(self.columns[name] for name in COPIED), strict=True)]
        object.__setattr__(self, "_copied", copied)

    def stamp(self, row: int) -> bytes:
        """The packed stamp of a run when the catalogue was written."""
        return self.stamps[self._spans[row]]

    def attempts(self, row: int) -> int:
        """The number of attempts of a run."""
        number: int = self.columns["attempts"][row]
        return number

    def never_runs_again(self, row: int) -> bool:
        """Whether no command executes the run again, so that its files stay as they are."""
        return self.columns["state"][row] in FINAL_STATES

    def is_entered(self, row: int) -> bool:
        """Whether all attempts of a run were in the ledger."""
        return bool(self.columns["entered"][row])

    def configuration_number(self, row: int) -> int:
        """The index of the configuration of a run."""
        number: int = self.columns["configuration"][row]
        return number

    def is_seeded_as(self, row: int, spec: RunSpec) -> bool:
        """Whether a run has the phase, root and seed of a specification."""
        columns = self.columns
        return bool(
            columns["seed"][row] == spec.seed
            and columns["root"][row] == spec.root
            and columns["phase"][row] == spec.phase
        )

    def stored(self, row: int, run: RunPaths, spec: RunSpec | None = None) -> StoredRun:
        """A run with its record in brief, as reading its files would give.

        Args:
            row: The row of the run.
            run: The files of the run.
            spec: The specification of the run; made from the row if None.

        Raises:
            RecordError: A value is invalid.
            TypeError: The same.
            ValueError: The same.
            IndexError: The same.
        """
        columns = self.columns
        again = self.configurations[columns["configuration"][row]].again
        failure, number = columns["failure"][row], columns["provenance"][row]
        means = _means(columns["measures"][row])
        record = RunRecord(
            spec=spec
            or again(Phase(columns["phase"][row]), columns["root"][row], columns["seed"][row]),
            state=State(columns["state"][row]),
            failure=None if failure is None else Failure(failure),
            continuations=_events(columns["continuations"][row], Continued),
            refused=_events(columns["refused"][row], Refused),
            brief=Brief(columns["score"][row], columns["last"][row], means),
            **dict(zip(COPIED, self._copied[row], strict=True)),
        )
        provenance = None if number is None else self.provenances[number]
        torn, quarantined = columns["torn"][row], columns["quarantined"][row]
        return StoredRun(run, record, torn, quarantined, provenance=provenance)


def columns_as_json(
    entries: Iterable[tuple[bytes, StoredRun]], entered: Callable[[StoredRun], bool]
) -> dict[str, Any]:
    """Runs as JSON values, one list per column.

    A configuration and a provenance are stored once and numbered.

    Args:
        entries: Runs in brief, with their packed stamps.
        entered: Whether all attempts of a run are in the ledger.
    """
    numbers: dict[tuple[int, ...], int] = {}
    firsts: list[RunSpec] = []
    provenances = NumberedTexts(MOST_PROVENANCE)
    rows, stamps = [], []
    for stamp, stored in entries:
        spec = stored.record.spec
        # By identity: `Catalogue` keeps the parts of equal configurations in memory once, and
        # comparing or hashing nested mappings for every run would be slow.
        key = tuple(id(getattr(spec, name)) for name in CONFIGURATION)
        if key not in numbers:
            numbers[key] = len(firsts)
            firsts.append(spec)
        further = {
            "configuration": numbers[key],
            "provenance": provenances.number(stored.provenance),
            "entered": entered(stored),
        }
        rows.append(_row(stored, further))
        stamps.append(stamp)
    columns = zip(*rows, strict=True)
    return {
        "configurations": [{"schema": s.schema, **s.parts} for s in firsts],
        "provenances": provenances.texts,
        "stamps": text_of_stamps(stamps),
        "runs": dict(zip(COLUMNS, map(list, columns), strict=True)),
    }


def read_table(document: Mapping[str, Any], checksum: bytes) -> CatalogueTable:
    """The inverse of `columns_as_json`.

    Args:
        document: The JSON values of the file, with the stamp of the ledger.
        checksum: The checksum of the file.

    Raises:
        TypeError: A value has a wrong type.
        ValueError: A column has a wrong length.
        KeyError: A column is missing.
    """
    columns = {name: document["runs"][name] for name in COLUMNS}
    # Types are checked by column: one set operation instead of a check for each value.
    for name, kinds in COLUMNS.items():
        if not set(map(type, columns[name])) <= set(kinds):
            raise TypeError("a column holds values of a wrong type")
    if len({*map(len, columns.values())}) > 1:
        raise ValueError("the columns have different lengths")
    if not isinstance(document["ledger"], list):
        raise TypeError("the stamp of the ledger is no list")
    return CatalogueTable(
        checksum=checksum,
        columns=columns,
        stamps=stamps_in(document["stamps"], columns["attempts"]),
        ledger=document["ledger"],
        configurations=[_first(parts) for parts in document["configurations"]],
        provenances=[text.encode() for text in document["provenances"]],
    )


def _first(parts: Mapping[str, Any]) -> RunSpec:
    kind = RunSpecSchema1 if parts["schema"] == RunSpecSchema1.schema else RunSpec
    settings: dict[str, Any] = {name: parts.get(name) for name in CONFIGURATION}
    return kind(**settings, phase=Phase.TEST, root=0, seed=0)


def _row(stored: StoredRun, further: Mapping[str, Any]) -> list[Any]:
    record, brief = stored.record, stored.record.brief
    assert brief is not None
    values = {
        "name": record.spec.name,
        **further,
        "phase": record.spec.phase,
        "root": record.spec.root,
        "seed": record.spec.seed,
        "state": record.state,
        "failure": record.failure,
        "continuations": [to_plain(event) for event in record.continuations],
        "refused": [to_plain(event) for event in record.refused],
        "score": brief.score,
        "last": brief.last,
        "measures": dict(brief.measures),
        "torn": int(stored.torn),
        "quarantined": stored.quarantined,
        **{name: getattr(record, name) for name in COPIED},
    }
    return [values[name] for name in COLUMNS]


def _means(values: Mapping[str, Any]) -> dict[str, float]:
    """Means of measures.

    Raises:
        TypeError: A value is no number.
    """
    if values and not set(map(type, values.values())) <= {float}:
        raise TypeError("a mean of a measure is no number")
    return dict(values)


def _events(values: Sequence[Mapping[str, Any]], kind: type[OfKind]) -> tuple[OfKind, ...]:
    events: list[OfKind] = []
    for value in values:
        event = from_plain(value)
        if not isinstance(event, kind):
            raise TypeError("it is another event")
        events.append(event)
    return tuple(events)


@dataclass(slots=True)
class NumberedTexts:
    """Different texts in the order in which they were met.

    Attributes:
        most: Most bytes of all texts together; later ones get no number.
        texts: The texts that have a number.
    """

    most: int
    texts: list[str] = field(default_factory=list)
    _numbers: dict[bytes, int | None] = field(default_factory=dict)
    _bytes: int = 0

    def number(self, content: bytes | None) -> int | None:
        """The number of a text; None where it is no text, or there are too many."""
        if content is None:
            return None
        if content not in self._numbers:
            self._numbers[content] = self._add(content)
        return self._numbers[content]

    def _add(self, content: bytes) -> int | None:
        self._bytes += len(content)
        if self._bytes > self.most:
            return None
        try:
            self.texts.append(content.decode())
        except UnicodeDecodeError:
            return None
        return len(self.texts) - 1
