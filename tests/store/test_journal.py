"""The journal: appended line by line, and readable up to its last whole line."""

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
    """Where a journal is written."""
    return tmp_path / "events.jsonl"


def write(path: Path, *events: Event) -> bytes:
    """Write a journal; returns its content."""
    writer = JournalWriter(path)
    for event in events:
        writer.append(event)
    writer.close()
    return path.read_bytes()


def test_events_are_read_as_they_were_written(path: Path) -> None:
    """In their order, none lost."""
    write(path, *EVENTS)
    journal = read_journal(path)
    assert (EVENTS, 0, 0) == (journal.events, journal.torn, journal.quarantined)


def test_an_event_is_there_before_the_next_one(path: Path) -> None:
    """A process that is killed keeps every event that it appended."""
    writer = JournalWriter(path)
    for count, event in enumerate(EVENTS, 1):
        writer.append(event)
        assert EVENTS[:count] == read_journal(path).events
    writer.close()


def test_a_journal_that_does_not_exist_is_empty(path: Path) -> None:
    """An attempt that did not begin has no events."""
    assert ([], 0) == (read_journal(path).events, read_journal(path).torn)


def test_a_journal_is_never_reopened(path: Path) -> None:
    """Not by another attempt, nor by the same."""
    before = write(path, *EVENTS)
    with pytest.raises(FileExistsError):
        JournalWriter(path)
    assert before == path.read_bytes()


def test_a_journal_cut_at_any_byte_keeps_its_whole_lines(path: Path) -> None:
    """Whatever a crash leaves of the last two lines, the lines before are read, and it says so."""
    content = write(path, *EVENTS)
    lines = content.splitlines(keepends=True)
    safe = len(b"".join(lines[:-2]))
    for size in range(safe, len(content) + 1):
        path.write_bytes(content[:size])
        journal = read_journal(path)
        whole = content[:size].count(b"\n")
        assert EVENTS[:whole] == journal.events
        assert (size != len(b"".join(lines[:whole])), 0) == (journal.torn, journal.quarantined)


def test_any_damaged_byte_spoils_no_other_line(path: Path) -> None:
    """Bits that fell over in one line cost that line at most."""
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
    """Damage, or an event of a later version: counted, and the rest is read."""
    content = write(path, *EVENTS)
    path.write_bytes(line + b"\n" + content)
    journal = read_journal(path)
    assert (EVENTS, 1, 0) == (journal.events, journal.quarantined, journal.torn)


def test_measurements_can_be_left_out(path: Path) -> None:
    """Most questions need no more than evaluations and ends."""
    write(path, *EVENTS)
    journal = read_journal(path, measurements=False)
    assert ([EVENTS[0], *EVENTS[2:]], 0) == (journal.events, journal.quarantined)


def test_a_line_that_a_full_disk_cut_spoils_no_other(path: Path) -> None:
    """The event after it, which says how the run ended, is read."""
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


def test_nothing_is_written_of_an_event_that_cannot_be(path: Path) -> None:
    """A value that is no JSON is an error of ours, never half a line."""
    writer = JournalWriter(path)
    with pytest.raises(TypeError):
        writer.append(Measured(time=0.0, step=0, metrics={"loss": object()}))  # type: ignore[dict-item]
    writer.close()
    assert b"" == path.read_bytes()


def test_following_gives_every_line_once(path: Path) -> None:
    """However the file grows between two looks, lines come whole, in order, and once."""
    content = write(path.with_name("whole"), *EVENTS)
    results: list[Event] = []
    offset = 0
    for size in range(len(content) + 1):
        path.write_bytes(content[:size])
        lines, offset = follow(path, offset)
        results.extend(events_of(lines))
        assert content[:size].count(b"\n") == len(results)
    assert (EVENTS, len(content)) == (results, offset)


def test_following_waits_for_the_file(path: Path) -> None:
    """A journal that is not there yet has no lines."""
    assert ([], 0) == follow(path, 0)


def test_following_passes_over_damage() -> None:
    """A line that cannot be read is left out, whatever it holds."""
    lines = [b"{", b"7", b"\xff", b"[" * 50_000]
    assert [] == list(events_of(lines))


def test_the_first_key_of_a_line_is_its_kind() -> None:
    """So that a reader can pass over measurements without parsing them."""
    assert "event" == next(iter(to_plain(EVENTS[1])))
