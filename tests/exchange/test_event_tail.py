"""Event files are read while a training script writes them."""

import struct
from pathlib import Path

import pytest

from rlexp.exchange import event_tail
from rlexp.exchange.event_tail import EventFilesTail
from rlexp.exchange.importers.event_file import checksum


def record(step: int, value: float = 0.5) -> bytes:
    """The record of one scalar with the tag `loss`."""
    scalar = b"\x0a\x04loss\x15" + struct.pack("<f", value)
    summary = b"\x0a" + bytes([len(scalar)]) + scalar
    event = b"\x10" + bytes([step]) + b"\x2a" + bytes([len(summary)]) + summary
    head = struct.pack("<Q", len(event))
    sums = [struct.pack("<I", checksum(text)) for text in (head, event)]
    return head + sums[0] + event + sums[1]


def steps(tail: EventFilesTail, *, last: bool = False) -> list[int]:
    """The steps of the new scalars."""
    return [scalar.step for scalar in tail.read(last=last)]


@pytest.fixture
def events(tmp_path: Path) -> Path:
    """An event file with the steps 1 to 6."""
    path = tmp_path / "events.out.tfevents.1.host"
    path.write_bytes(b"".join(map(record, range(1, 7))))
    return path


def test_a_growing_file_is_read_once(events: Path) -> None:
    """Each scalar is read once, and half a record is read when it is complete."""
    tail, (first, second) = EventFilesTail(events.parent), map(record, (7, 8))
    assert [1, 2, 3, 4, 5, 6] == steps(tail)
    with events.open("ab") as file:
        file.write(first + second[:20])
    assert [7] == steps(tail)
    with events.open("ab") as file:
        file.write(second[20:])
    assert ([8], []) == (steps(tail), steps(tail))


def test_the_last_read_takes_whole_files(events: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the script has ended, a file is read to its end, however large it is."""
    monkeypatch.setattr(event_tail, "LARGEST_READ", 2 * len(record(1)))
    tail = EventFilesTail(events.parent)
    assert [1, 2] == steps(tail)
    assert [3, 4, 5, 6] == steps(tail, last=True)


def test_a_record_that_is_too_large_is_reported(
    events: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file with a record larger than one read is named, and not read again and again."""
    monkeypatch.setattr(event_tail, "LARGEST_READ", len(record(1)) - 1)
    tail = EventFilesTail(events.parent)
    assert ([], []) == (steps(tail), steps(tail, last=True))
    (problem,) = tail.problems()
    assert "has a record with more than" in problem


def test_a_folder_that_disappears_stops_no_run(
    events: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script may remove folders while they are searched."""

    def vanish(*_: object) -> list[Path]:
        raise FileNotFoundError(str(events.parent))

    tail = EventFilesTail(events.parent)
    monkeypatch.setattr(Path, "rglob", vanish)
    assert [] == steps(tail)
    monkeypatch.undo()
    assert [1, 2, 3, 4, 5, 6] == steps(tail, last=True)
