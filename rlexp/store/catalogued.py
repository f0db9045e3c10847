"""Runs that are over as a catalogue holds them: plain columns, checked as they are read."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from rlexp.protocol.schema_1 import FirstRunSpec
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import CONFIGURATION, RunSpec
from rlexp.records.events import Continued, Event, Failure, Refused, from_plain, to_plain
from rlexp.records.run import Brief, RunRecord, State
from rlexp.store.layout import RunPaths
from rlexp.store.runs import StoredRun
from rlexp.store.stamps import Stamp

AS_THEY_ARE: Mapping[str, tuple[type, ...]] = {
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
}
"""Fields of a record that are JSON values, and their kinds."""
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
    "torn": (int,),
    "quarantined": (int,),
    **AS_THEY_ARE,
}
"""What is said of a run, and its kinds."""

OfKind = TypeVar("OfKind", bound=Event)


@dataclass(frozen=True, slots=True)
class Row:
    """A run as a catalogue says it was; `configurations` are those that it counts from."""

    told: Mapping[str, Any]
    configurations: Sequence[RunSpec]

    @property
    def stamp(self) -> Stamp:
        """The stamp of its files then."""
        stamp: Stamp = self.told["stamp"]
        return stamp

    @property
    def configuration(self) -> RunSpec:
        """A specification of its configuration.

        Raises:
            IndexError: There is none.
        """
        number: int = self.told["configuration"]
        return self.configurations[number]

    def is_seeded_as(self, spec: RunSpec) -> bool:
        """Whether it has the phase, root and seed of a specification."""
        told = self.told
        return (told["phase"], told["root"], told["seed"]) == (spec.phase, spec.root, spec.seed)

    def stored(self, run: RunPaths, spec: RunSpec | None = None) -> StoredRun:
        """The run as reading its files would tell it, in brief.

        Args:
            run: Where it is.
            spec: What specifies it; without one, it is made.

        Raises:
            RecordError: It makes no sense.
            TypeError: The same.
            ValueError: The same.
            IndexError: The same.
        """
        told = self.told
        again = self.configuration.again
        record = RunRecord(
            spec=spec or again(Phase(told["phase"]), told["root"], told["seed"]),
            state=State(told["state"]),
            failure=None if told["failure"] is None else Failure(told["failure"]),
            continuations=tuple(_events(told["continuations"], Continued)),
            refused=tuple(_events(told["refused"], Refused)),
            brief=Brief(told["score"], told["last"]),
            **{name: told[name] for name in AS_THEY_ARE},
        )
        return StoredRun(run, record, told["torn"], told["quarantined"])


def plain_columns(entries: Iterable[tuple[Stamp, StoredRun]]) -> dict[str, Any]:
    """Runs as JSON values; those of one configuration name it by a number."""
    numbers: dict[tuple[int, ...], int] = {}
    firsts: list[RunSpec] = []
    rows = []
    for stamp, stored in entries:
        spec = stored.record.spec
        key = tuple(id(getattr(spec, name)) for name in CONFIGURATION)
        if key not in numbers:
            numbers[key] = len(firsts)
            firsts.append(spec)
        rows.append(_row(stamp, stored, numbers[key]))
    columns = zip(*rows, strict=True)
    return {
        "configurations": [{"schema": s.schema, **s.parts} for s in firsts],
        "runs": dict(zip(COLUMNS, map(list, columns), strict=True)),
    }


def read_rows(plain: Mapping[str, Any]) -> dict[str, Row]:
    """The inverse of `plain_columns`: what is said of every run, by its name.

    Raises:
        TypeError: A value is of another kind.
        ValueError: A column has another length.
        KeyError: A column is missing.
    """
    columns = [plain["runs"][name] for name in COLUMNS]
    for column, kinds in zip(columns, COLUMNS.values(), strict=True):
        if not set(map(type, column)) <= set(kinds):
            raise TypeError("a column holds other values")
    configurations = [_first(parts) for parts in plain["configurations"]]
    rows = (dict(zip(COLUMNS, row, strict=True)) for row in zip(*columns, strict=True))
    return {told["name"]: Row(told, configurations) for told in rows}


def _first(parts: Mapping[str, Any]) -> RunSpec:
    kind = FirstRunSpec if parts["schema"] == FirstRunSpec.schema else RunSpec
    settings: dict[str, Any] = {name: parts.get(name) for name in CONFIGURATION}
    return kind(**settings, phase=Phase.TEST, root=0, seed=0)


def _row(stamp: Stamp, stored: StoredRun, configuration: int) -> list[Any]:
    record, brief = stored.record, stored.record.brief
    assert brief is not None
    told = {
        "name": record.spec.name,
        "stamp": stamp,
        "configuration": configuration,
        "phase": record.spec.phase,
        "root": record.spec.root,
        "seed": record.spec.seed,
        "state": record.state,
        "failure": record.failure,
        "continuations": [to_plain(event) for event in record.continuations],
        "refused": [to_plain(event) for event in record.refused],
        "score": brief.score,
        "last": brief.last,
        "torn": int(stored.torn),
        "quarantined": stored.quarantined,
        **{name: getattr(record, name) for name in AS_THEY_ARE},
    }
    return [told[name] for name in COLUMNS]


def _events(plain: Sequence[Mapping[str, Any]], kind: type[OfKind]) -> Iterator[OfKind]:
    for one in plain:
        event = from_plain(one)
        if not isinstance(event, kind):
            raise TypeError("it is another event")
        yield event
