"""The register of looks: each look once, in a chain, by several commands at once, after a kill."""

import json
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from look_samples import look

from rlexp.errors import HeldError, RecordError
from rlexp.store.layout import Layout
from rlexp.store.locks.lease import Lease, hold
from rlexp.store.registers.looks import enter_looks, read_looks

ENTER = """
import sys
from pathlib import Path
from look_samples import look
from rlexp.store.layout import Layout
from rlexp.store.registers.looks import enter_looks
for number in range(10):
    enter_looks(Layout(Path(sys.argv[1])), [look(100 * int(sys.argv[2]) + number), look(7)])
"""


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A folder with a register of three looks."""
    enter_looks(Layout(tmp_path), [look(number) for number in range(3)])
    return Layout(tmp_path)


def lines(layout: Layout) -> list[str]:
    """The lines of the register."""
    return layout.looks.read_text().splitlines()


def test_what_was_entered_is_read_back(layout: Layout) -> None:
    """All looks are read in order, and nothing is wrong with their chain."""
    register = read_looks(layout)
    assert (look(0), look(1), look(2)) == register.looks
    assert ((), False, 3) == (register.breaks, register.torn, len(register.sums))


def test_a_look_is_entered_once(layout: Layout) -> None:
    """A look that is shown again, or twice at once, adds no line."""
    before = layout.looks.read_bytes()
    enter_looks(layout, [look(1), look(0)])
    assert before == layout.looks.read_bytes()
    enter_looks(layout, [look(5), look(5), look(1)])
    assert 4 == len(lines(layout))


def test_only_the_looks_of_the_tasks_are_returned(layout: Layout) -> None:
    """With tasks, looks at other tasks are left out, and the chain of all lines is checked."""
    other = look(9, task='a "task"')
    enter_looks(layout, [other])
    assert (other,) == read_looks(layout, {other.task}).looks
    layout.looks.write_text("\n".join(lines(layout)[1:]) + "\n")
    assert 1 == len(read_looks(layout, {other.task}).breaks)


@pytest.mark.parametrize("removed", [0, 1])
def test_a_removed_line_breaks_the_chain(layout: Layout, removed: int) -> None:
    """A register without one of its lines is found to be changed."""
    kept = [line for number, line in enumerate(lines(layout)) if number != removed]
    layout.looks.write_text("\n".join(kept) + "\n")
    (message,) = read_looks(layout).breaks
    assert "does not follow" in message


@pytest.mark.parametrize("number", [0, 1, 2])
def test_an_edited_line_is_found(layout: Layout, number: int) -> None:
    """An edit of any line is found, the last one included, which no later line covers."""
    edited = lines(layout)
    edited[number] = edited[number].replace('"deviation":2.0', '"deviation":0.1')
    layout.looks.write_text("\n".join(edited) + "\n")
    assert read_looks(layout).breaks


def test_looks_are_entered_behind_a_broken_chain(layout: Layout) -> None:
    """A changed register keeps growing, and stays recognisable as changed."""
    layout.looks.write_text("\n".join(lines(layout)[1:]) + "\n")
    enter_looks(layout, [look(8)])
    register = read_looks(layout)
    assert (look(1), look(2), look(8)) == register.looks
    assert 1 == len(register.breaks)


def test_a_register_cut_at_any_byte_is_whole_after_the_next_look(layout: Layout) -> None:
    """After a kill or a power cut in the middle of writing, the next look makes the register whole."""
    content = layout.looks.read_bytes()
    start = content.index(b"\n") + 1
    for cut in range(start, len(content), 7):
        layout.looks.write_bytes(content[:cut])
        enter_looks(layout, [look(1), look(2), look(3)])
        register = read_looks(layout)
        assert (look(0), look(1), look(2), look(3)) == register.looks
        assert ((), False) == (register.breaks, register.torn)


def test_text_behind_the_last_line_is_found(layout: Layout) -> None:
    """An incomplete line that is not the beginning of the next line is found to be foreign."""
    with layout.looks.open("a") as file:
        file.write('{"schema":1,"before":"another')
    assert read_looks(layout).breaks


def test_commands_at_the_same_time_lose_no_look(tmp_path: Path) -> None:
    """Four processes that enter ten looks each leave all of them, and a common one once."""
    here = str(Path(__file__).parent.parent)
    commands = [
        subprocess.Popen(
            [sys.executable, "-c", ENTER, str(tmp_path), str(n)], env={"PYTHONPATH": here}
        )
        for n in range(4)
    ]
    assert [0] * 4 == [command.wait() for command in commands]
    register = read_looks(Layout(tmp_path))
    expected = {look(100 * n + number).id for n in range(4) for number in range(10)}
    assert expected | {look(7).id} == {entered.id for entered in register.looks}
    assert (len(expected), ()) == (len(register.looks), register.breaks)


def test_a_new_look_waits_for_the_lock(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another process holds the lock, no new look is written."""
    monkeypatch.setattr("rlexp.store.registers.looks.PATIENCE", 0.0)
    before = layout.looks.read_bytes()
    with (
        hold(layout.looks_lock, "the register", now=0.0),
        pytest.raises(HeldError, match="register of looks is in use"),
    ):
        enter_looks(layout, [look(4)])
    assert before == layout.looks.read_bytes()


def test_a_look_that_another_command_enters_meanwhile_is_entered_once(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look that appears while a command waits for the lock is not entered again."""
    entering = [look(4)]

    def hold_later(*arguments: Any, **settings: Any) -> AbstractContextManager[Lease]:
        if entering:
            enter_looks(layout, [entering.pop()])
        return hold(*arguments, **settings)

    monkeypatch.setattr("rlexp.store.registers.looks.hold", hold_later)
    enter_looks(layout, [look(5), look(4)])
    assert (look(4), look(5)) == read_looks(layout).looks[3:]


def test_a_look_that_is_known_needs_no_lock(layout: Layout) -> None:
    """Where another process holds the lock, looks that are entered already cause no waiting."""
    with hold(layout.looks_lock, "the register", now=0.0):
        enter_looks(layout, [look(0)])


def test_a_link_in_place_of_the_register_is_refused(layout: Layout, tmp_path: Path) -> None:
    """A symbolic link is neither read nor written through."""
    elsewhere = tmp_path / "elsewhere"
    layout.looks.rename(elsewhere)
    layout.looks.symlink_to(elsewhere)
    with pytest.raises(RecordError, match="cannot be read"):
        enter_looks(layout, [look(4)])


def test_every_line_has_a_checksum_of_the_line_before(layout: Layout) -> None:
    """The register is a chain of JSON lines with a schema."""
    documents = [json.loads(line) for line in lines(layout)]
    assert [1, 1, 1] == [document["schema"] for document in documents]
    sums = read_looks(layout).sums
    assert ["0" * 64, *sums[:-1]] == [document["before"] for document in documents]
