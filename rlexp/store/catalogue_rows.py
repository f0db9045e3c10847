"""The entries of a catalogue: ended runs in brief, and their form as columns of JSON values."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from rlexp.protocol.schema_1 import RunSpecSchema1
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import CONFIGURATION, RunSpec
from rlexp.records.events import Continued, Event, Failure, Refused, from_plain, to_plain
from rlexp.records.run import Brief, RunRecord, State
from rlexp.store.layout import RunPaths
from rlexp.store.numbered_texts import NumberedTexts
from rlexp.store.runs import StoredRun

Stamp = list[int]
"""The stamp of a run: the numbers of all files that its record is made from, in a fixed order."""
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
    "stamp": (list,),
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

OfKind = TypeVar("OfKind", bound=Event)


@dataclass(frozen=True, slots=True)
class CatalogueRow:
    """The entry of one run.

    Attributes:
        values: One value for each of `COLUMNS`.
        configurations: All configurations of the catalogue; the row holds an index into them.
        provenances: The different provenances of the catalogue, likewise.
    """

    values: Mapping[str, Any]
    configurations: Sequence[RunSpec]
    provenances: Sequence[bytes] = ()

    @property
    def stamp(self) -> Stamp:
        """The stamp of the run when the catalogue was written."""
        stamp: Stamp = self.values["stamp"]
        return stamp

    @property
    def configuration(self) -> RunSpec:
        """A run specification with the run's configuration.

        Raises:
            IndexError: The catalogue has no such configuration.
        """
        number: int = self.values["configuration"]
        return self.configurations[number]

    def is_seeded_as(self, spec: RunSpec) -> bool:
        """Whether the run has the phase, root and seed of a specification."""
        values = self.values
        return (values["phase"], values["root"], values["seed"]) == (
            spec.phase,
            spec.root,
            spec.seed,
        )

    def stored(self, run: RunPaths, spec: RunSpec | None = None) -> StoredRun:
        """The run with its record in brief, as reading its files would give.

        Args:
            run: The files of the run.
            spec: The specification of the run; made from the row if None.

        Raises:
            RecordError: A value is invalid.
            TypeError: The same.
            ValueError: The same.
            IndexError: The same.
        """
        values = self.values
        again = self.configuration.again
        record = RunRecord(
            spec=spec or again(Phase(values["phase"]), values["root"], values["seed"]),
            state=State(values["state"]),
            failure=None if values["failure"] is None else Failure(values["failure"]),
            continuations=tuple(_events(values["continuations"], Continued)),
            refused=tuple(_events(values["refused"], Refused)),
            brief=Brief(values["score"], values["last"], _means(values["measures"])),
            **{name: values[name] for name in COPIED},
        )
        number = values["provenance"]
        provenance = None if number is None else self.provenances[number]
        return StoredRun(run, record, values["torn"], values["quarantined"], provenance=provenance)


def columns_as_json(
    entries: Iterable[tuple[Stamp, StoredRun]], entered: Callable[[StoredRun], bool]
) -> dict[str, Any]:
    """Runs as JSON values, one list per column.

    A configuration and a provenance are stored once and numbered.

    Args:
        entries: Runs in brief, with their stamps.
        entered: Whether all attempts of a run are in the ledger.
    """
    numbers: dict[tuple[int, ...], int] = {}
    firsts: list[RunSpec] = []
    provenances = NumberedTexts(MOST_PROVENANCE)
    rows = []
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
        rows.append(_row(stamp, stored, further))
    columns = zip(*rows, strict=True)
    return {
        "configurations": [{"schema": s.schema, **s.parts} for s in firsts],
        "provenances": provenances.texts,
        "runs": dict(zip(COLUMNS, map(list, columns), strict=True)),
    }


def read_rows(document: Mapping[str, Any]) -> dict[str, CatalogueRow]:
    """The inverse of `columns_as_json`: the entry of every run, by its name.

    Raises:
        TypeError: A value has a wrong type.
        ValueError: A column has a wrong length.
        KeyError: A column is missing.
    """
    columns = [document["runs"][name] for name in COLUMNS]
    # Types are checked by column: one set operation instead of a check for each value.
    for column, kinds in zip(columns, COLUMNS.values(), strict=True):
        if not set(map(type, column)) <= set(kinds):
            raise TypeError("a column holds values of a wrong type")
    configurations = [_first(parts) for parts in document["configurations"]]
    provenances = [text.encode() for text in document["provenances"]]
    rows = (dict(zip(COLUMNS, row, strict=True)) for row in zip(*columns, strict=True))
    return {values["name"]: CatalogueRow(values, configurations, provenances) for values in rows}


def _first(parts: Mapping[str, Any]) -> RunSpec:
    kind = RunSpecSchema1 if parts["schema"] == RunSpecSchema1.schema else RunSpec
    settings: dict[str, Any] = {name: parts.get(name) for name in CONFIGURATION}
    return kind(**settings, phase=Phase.TEST, root=0, seed=0)


def _row(stamp: Stamp, stored: StoredRun, further: Mapping[str, Any]) -> list[Any]:
    record, brief = stored.record, stored.record.brief
    assert brief is not None
    values = {
        "name": record.spec.name,
        "stamp": stamp,
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
    if not set(map(type, values.values())) <= {float}:
        raise TypeError("a mean of a measure is no number")
    return dict(values)


def _events(values: Sequence[Mapping[str, Any]], kind: type[OfKind]) -> Iterator[OfKind]:
    for value in values:
        event = from_plain(value)
        if not isinstance(event, kind):
            raise TypeError("it is another event")
        yield event
