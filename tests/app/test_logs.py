"""`rlexp logs`: the output of a run, harmless to the terminal."""

from pathlib import Path

import pytest
from quick_parts import quick_parts
from stored_runs import Stored, completed, console, stored, study

from rlexp.app.commands.logs import logs
from rlexp.errors import ConfigError, RecordError
from rlexp.store.layout import Layout
from rlexp.store.runs import write_run

quick = pytest.fixture(autouse=True)(quick_parts)


@pytest.fixture
def alpha(tmp_path: Path) -> Stored:
    """A run of two attempts, each with an output of its own."""
    alpha = stored(Layout(tmp_path / "runs"))
    alpha.attempt(0, log="first\n")
    alpha.attempt(0, completed(1.0), log="one\ntwo\nthree\n")
    return alpha


@pytest.mark.parametrize(
    ("attempt", "lines", "expected"),
    [
        (None, None, "one\ntwo\nthree\n"),
        (None, 2, "two\nthree\n"),
        (None, 9, "one\ntwo\nthree\n"),
        (None, 0, ""),
        (1, None, "first\n"),
        (2, 1, "three\n"),
    ],
)
def test_the_output_of_an_attempt_is_printed(
    alpha: Stored,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    attempt: int | None,
    lines: int | None,
    expected: str,
) -> None:
    """The last attempt if none is named, the last lines if so many are asked for."""
    assert logs("ppo-test-0", attempt, lines, study(tmp_path), console()) == 0
    assert expected == capsys.readouterr().out


def test_control_characters_are_harmless(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Escape codes, bells and bytes that are no text become visible; tabs and lines stay."""
    alpha = stored(Layout(tmp_path / "runs"))
    alpha.attempt(0, log=b"\x1b]0;title\x07[bold]a\tb[/bold]\r\nc\rd \xff\xe2\x80\xae:smile:\n")
    logs("ppo-test-0", None, None, study(tmp_path), console())
    bad = "\N{REPLACEMENT CHARACTER}"
    expected = f"{bad}]0;title{bad}[bold]a\tb[/bold]\nc{bad}d {bad}{bad}:smile:\n"
    assert expected == capsys.readouterr().out


@pytest.mark.parametrize("missing", [False, True])
def test_an_empty_log_says_so_on_standard_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], missing: bool
) -> None:
    """Standard output stays empty, so that a pipe gets nothing that the run did not print."""
    run = stored(Layout(tmp_path / "runs")).attempt(0)
    if missing:
        run.attempt(1).log.unlink()
    assert logs("ppo-test-0", None, None, study(tmp_path), console()) == 0
    expected = ("", f"attempt 1 of run {run.folder.name} printed nothing\n")
    assert expected == capsys.readouterr()


def test_what_is_not_there_is_refused(alpha: Stored, tmp_path: Path) -> None:
    """An attempt that was not made, a run that was not attempted, a count below zero."""
    write_run(alpha.run(1), alpha.spec(1))
    with pytest.raises(RecordError, match=r"no attempt 3 \(there are: 1, 2\)"):
        logs("ppo-test-0", 3, None, study(tmp_path), console())
    with pytest.raises(RecordError, match="was not attempted yet"):
        logs("ppo-test-1", None, None, study(tmp_path), console())
    with pytest.raises(ConfigError, match="--lines=-1 is negative"):
        logs("ppo-test-0", None, -1, study(tmp_path), console())
