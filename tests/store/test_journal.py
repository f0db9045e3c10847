"""The journal of an attempt: appended line by line, and readable up to its last complete line."""

import resource
from pathlib import Path

import pytest
from in_full import IN_FULL
from samples import ended, evaluated, started

from rlexp.records.events import Event, Failure, Measured, to_plain
from rlexp.store.journal import JournalWriter, events_of, follow, read_journal

EVENTS: list[Event] = [
    started(),
    Measured(time=1.0, step=5, metrics={"loss": float("inf")}),
    evaluated(10, 1.0, float("-inf")),
    ended(failure=Failure.NAN),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of a journal that is not written yet."""
    return tmp_path / "events.jsonl"


def write(path: Path, *events: Event) -> bytes:
    """Write a journal and return its content."""
    writer = JournalWriter(path)
    for event in events:
        writer.append(event)
    writer.close()
    return path.read_bytes()


def test_events_are_read_as_they_were_written(path: Path) -> None:
    """All events are read in the order in which they were written."""
    write(path, *EVENTS)
    journal = read_journal(path)
    assert (EVENTS, 0, 0) == (journal.events, journal.torn, journal.quarantined)


def test_an_event_is_on_disk_before_the_next_one(path: Path) -> None:
    """Each appended event can be read at once, so that a kill loses none."""
    writer = JournalWriter(path)
    for count, event in enumerate(EVENTS, 1):
        writer.append(event)
        assert EVENTS[:count] == read_journal(path).events
    writer.close()


def test_a_journal_that_does_not_exist_is_empty(path: Path) -> None:
    """The journal of an attempt that did not begin has no events."""
    assert ([], 0) == (read_journal(path).events, read_journal(path).torn)


def test_a_journal_is_never_reopened(path: Path) -> None:
    """A second writer for an existing journal is refused."""
    before = write(path, *EVENTS)
    with pytest.raises(FileExistsError):
        JournalWriter(path)
    assert before == path.read_bytes()


def test_a_journal_cut_at_any_byte_keeps_its_whole_lines(path: Path) -> None:
    """After a cut in the last lines, all complete lines are read and the torn line is reported."""
    content = write(path, *EVENTS)
    lines = content.splitlines(keepends=True)
    earlier_size = len(b"".join(lines[:-2]))
    for size in range(earlier_size, len(content) + 1):
        path.write_bytes(content[:size])
        journal = read_journal(path)
        complete_lines = content[:size].count(b"\n")
        assert EVENTS[:complete_lines] == journal.events
        assert (size != len(b"".join(lines[:complete_lines])), 0) == (
            journal.torn,
            journal.quarantined,
        )


def test_any_damaged_byte_spoils_no_other_line(path: Path) -> None:
    """A damaged byte spoils at most the line that contains it."""
    content = write(path, *EVENTS)
    first, last = content.index(b"\n") + 1, content.rindex(b"\n", 0, -1)
    for position in range(first, last, 1 if IN_FULL else 3):
        for byte in (b"\0", b"\xff", b"}", b"\n"):
            path.write_bytes(content[:position] + byte + content[position + 1 :])
            journal = read_journal(path)
            assert (EVENTS[0], EVENTS[-1]) == (journal.events[0], journal.events[-1])
            assert len(journal.events) + journal.quarantined >= len(EVENTS) - 1


@pytest.mark.parametrize(
    "line", [b"", b"7", b"null", b"[]", b"{}", b'"x"', b"[" * 50_000, b'{"event":"later"}']
)
def test_a_line_that_is_no_event_is_quarantined(path: Path, line: bytes) -> None:
    """A line that is no known event is counted, and the other lines are read."""
    content = write(path, *EVENTS)
    path.write_bytes(line + b"\n" + content)
    journal = read_journal(path)
    assert (EVENTS, 1, 0) == (journal.events, journal.quarantined, journal.torn)


def test_measurements_can_be_left_out(path: Path) -> None:
    """Measurements can be left out while reading, because most readers do not need them."""
    write(path, *EVENTS)
    journal = read_journal(path, measurements=False)
    assert ([EVENTS[0], *EVENTS[2:]], 0) == (journal.events, journal.quarantined)


def test_a_line_that_a_full_disk_cut_spoils_no_other(path: Path) -> None:
    """A line that a full disk cut does not affect the event after it."""
    writer = JournalWriter(path)
    writer.append(EVENTS[0])
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 20, limit[1]))
    try:
        with pytest.raises(OSError, match="only part of a line"):
            writer.append(EVENTS[2])
        with pytest.raises(OSError, match="File too large"):
            writer.append(EVENTS[2])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert ([EVENTS[0]], 1) == (read_journal(path).events, read_journal(path).torn)
    writer.append(ended(failure=Failure.DISK))
    writer.close()
    journal = read_journal(path)
    assert ([EVENTS[0], ended(failure=Failure.DISK)], 1, 0) == (
        journal.events,
        journal.quarantined,
        journal.torn,
    )


def test_an_invalid_event_is_not_written(path: Path) -> None:
    """An event that JSON cannot hold is refused, and no part of it is written."""
    writer = JournalWriter(path)
    with pytest.raises(TypeError):
        writer.append(Measured(time=0.0, step=0, metrics={"loss": object()}))  # type: ignore[dict-item]
    writer.close()
    assert b"" == path.read_bytes()


def test_following_gives_every_line_once(path: Path) -> None:
    """Following a growing file gives each complete line once and in order."""
    content = write(path.with_name("whole"), *EVENTS)
    events: list[Event] = []
    offset = 0
    for size in range(len(content) + 1):
        path.write_bytes(content[:size])
        lines, offset = follow(path, offset)
        events.extend(events_of(lines))
        assert content[:size].count(b"\n") == len(events)
    assert (EVENTS, len(content)) == (events, offset)


def test_following_waits_for_the_file(path: Path) -> None:
    """Following a missing file gives no lines and no error."""
    assert ([], 0) == follow(path, 0)


def test_following_skips_damaged_lines() -> None:
    """Lines that cannot be read are skipped."""
    lines = [b"{", b"7", b"\xff", b"[" * 50_000]
    assert [] == list(events_of(lines))


def test_the_first_key_of_a_line_is_its_kind() -> None:
    """The kind is the first key, so that readers can skip measurements without parsing them."""
    assert "event" == next(iter(to_plain(EVENTS[1])))
