"""A closed pipe stops no command, and the rest of the output is discarded."""

import shlex
import subprocess
import sys
from pathlib import Path

RLEXP = f"{shlex.quote(sys.executable)} -m rlexp"
FAULTS = Path(__file__).parents[2] / "faults"
QUICK = (
    f"PYTHONPATH={shlex.quote(str(FAULTS))} "
    f"{shlex.quote(sys.executable)} {shlex.quote(str(FAULTS / 'quick_command.py'))}"
)
"""The command `rlexp` with runs that train nothing."""


def shell(line: str, folder: Path) -> tuple[str, str, list[int]]:
    """Run a shell line; returns both streams and the exit code of each command in the line."""
    process = subprocess.run(
        ["bash", "-c", f"{line}; echo codes ${{PIPESTATUS[@]}} >&2"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    errors, _, codes = process.stderr.partition("codes ")
    return process.stdout, errors, [int(code) for code in codes.split()]


def test_a_table_into_a_closed_pipe_succeeds(tmp_path: Path) -> None:
    """`rlexp config list | true` exits with 0 and prints no error."""
    output, errors, codes = shell(f"{RLEXP} config list algorithm | true", tmp_path)
    assert ("", "", [0, 0]) == (output, errors, codes)


def test_json_into_a_closed_pipe_shows_no_traceback(tmp_path: Path) -> None:
    """A reader that ends early changes no exit code and causes no traceback."""
    arguments = f"{RLEXP} config list algorithm --json"
    _, errors, codes = shell(f"{{ sleep 1; {arguments} || exit $?; }} | true", tmp_path)
    assert ("", [0, 0]) == (errors, codes)


def test_training_continues_after_the_pipe_is_closed(tmp_path: Path) -> None:
    """The runs of a command complete although its output is not read."""
    arguments = (
        "budget.steps=2048 budget.evaluation_every=null budget.final_episodes=2 seeds.test=2"
    )
    _, errors, codes = shell(f"{QUICK} run {arguments} experiment=unread | true", tmp_path)
    assert ("", [0, 0]) == (errors, codes)
    assert 2 == len(list((tmp_path / "runs" / "unread").glob("*/model.zip")))
