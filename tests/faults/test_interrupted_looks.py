"""A kill, a full disk and a folder without permission while a look is entered."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from injection import count_calls, fail_at, kill_at, traced
from look_samples import look
from studies import StudyFolder, new_study, wait_until
from test_read_only import AS_ORDINARY_USER, needs_setpriv

from rlexp.store.layout import Layout
from rlexp.store.registers.looks import enter_looks, read_looks

CALLS = ("ftruncate", "pwrite64", "fsync")
ENTERING = """
import json, sys
from pathlib import Path
from rlexp.records.look import Look
from rlexp.store.layout import Layout
from rlexp.store.registers.looks import enter_looks

looks = [Look.from_plain(plain) for plain in json.loads(sys.argv[2])]
enter_looks(Layout(Path(sys.argv[1])), looks)
"""
WORDS = ("run", "experiment=x", "budget.steps=3000", "budget.evaluation_every=1000")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A folder with a register of one look."""
    enter_looks(Layout(tmp_path), [look(0)])
    return Layout(tmp_path)


@pytest.fixture
def study(tmp_path: Path) -> Iterator[StudyFolder]:
    """A study whose runs train nothing."""
    with new_study(tmp_path / "study", quick=True, warm=True) as study:
        yield study


def arguments(layout: Layout) -> tuple[str, str]:
    """The arguments of the program that enters two looks."""
    return str(layout.root), json.dumps([look(1).plain(), look(2).plain()])


@traced
@pytest.mark.parametrize("call", CALLS)
def test_the_register_is_whole_after_a_kill(layout: Layout, call: str) -> None:
    """After a kill at any writing call, the next command makes the register whole."""
    outcome = kill_at(call, 1, ENTERING, *arguments(layout), path=layout.looks)
    assert outcome.hit
    assert () == read_looks(layout).breaks
    enter_looks(layout, [look(1), look(2)])
    register = read_looks(layout)
    assert (look(0), look(1), look(2)) == register.looks
    assert ((), False) == (register.breaks, register.torn)


@traced
def test_a_full_disk_loses_no_earlier_look(layout: Layout) -> None:
    """Where the disk takes nothing, the earlier looks stay, and a later command adds the new ones."""
    outcome = fail_at("pwrite64", 1, "ENOSPC", ENTERING, *arguments(layout), path=layout.looks)
    assert (True, "No space left" in outcome.output) == (outcome.hit, True)
    assert (look(0),) == read_looks(layout).looks
    enter_looks(layout, [look(1)])
    assert (look(0), look(1)) == read_looks(layout).looks


@traced
def test_a_look_is_one_write_whatever_the_register_holds(layout: Layout) -> None:
    """The number of writing calls is the same behind one look and behind 2,000."""
    few = count_calls(CALLS, ENTERING, *arguments(layout))
    layout.looks.unlink()
    enter_looks(layout, [look(number) for number in range(10, 2_010)])
    assert few == count_calls(CALLS, ENTERING, *arguments(layout))


@needs_setpriv
def test_a_read_only_folder_is_counted_and_said(study: StudyFolder) -> None:
    """In a folder without permission, scores are shown, counted, and the command says why."""
    assert 0 == study.give(*WORDS, "seeds.test=2")[0]
    runs = study.folder / "runs"
    for name in ("looks.jsonl", ".looks.lock"):
        (runs / name).unlink()
    folders = [runs, *(path for path in runs.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    code, output = study.give("show", "x", before=AS_ORDINARY_USER)
    for folder in folders:
        folder.chmod(0o755)
    text = " ".join(output.split())
    assert (0, True) == (code, "1 configuration has been tried" in text), output
    assert "these looks count in this command only: Permission denied" in text
    assert not (runs / "looks.jsonl").exists()


def test_the_scores_of_an_interrupted_command_are_looks(study: StudyFolder) -> None:
    """Whoever stops a command after its first scores has looked at them."""
    command = study.start(
        *WORDS, "seeds.test=40", "executor.workers=1", variables={"RLEXP_QUICK": '{"seconds": 1}'}
    )
    wait_until(lambda: study.events("x", "ended"))
    command.send_signal(signal.SIGINT)
    output, _ = command.communicate(timeout=60)
    assert command.returncode in {130, -signal.SIGINT}, output
    (entered,) = read_looks(Layout(study.folder / "runs")).looks
    assert 1 <= len(entered.seeds) < 40
