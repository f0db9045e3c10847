"""The line of a log that says why a script failed."""

from pathlib import Path

import pytest

from rlexp.app.execution.scripts.failure_lines import failure_line

TRACEBACK = """Traceback (most recent call last):
  File "train.py", line 3, in <module>
    main()
"""
JAX = """--------------------
For simplicity, JAX has removed its internal frames from the traceback of the following exception.
"""
HYDRA = "\nSet the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", ""),
        ("step 1\nstep 2\n\n", "step 2"),
        (f"{TRACEBACK}ValueError: no goal\n", "ValueError: no goal"),
        (f"{TRACEBACK}ValueError: no goal\n{JAX}", "ValueError: no goal"),
        (f"Error executing job\n{TRACEBACK}my.Fault: no goal\n{HYDRA}", "my.Fault: no goal"),
        (
            f"{TRACEBACK}KeyError: 'a'\n\nDuring handling of it:\n\n{TRACEBACK}OSError: b\n",
            "OSError: b",
        ),
        ("Error: file not found\nsee --help\n", "Error: file not found"),
        (
            "ERROR: LoadError: no goal\nStacktrace:\n [1] top-level scope\n",
            "ERROR: LoadError: no goal",
        ),
        (
            f"{TRACEBACK}ValueError: was handled\n" + "step\n" * 20 + "no more data\n",
            "no more data",
        ),
        (f"{TRACEBACK}", "main()"),
    ],
)
def test_the_error_counts_and_not_the_remarks_after_it(
    text: str, line: str, tmp_path: Path
) -> None:
    """The error of the last traceback is named, or an error a few lines before the end, or the end."""
    (tmp_path / "log.txt").write_text(text)
    assert failure_line(tmp_path / "log.txt") == line


def test_a_log_that_does_not_exist_names_nothing(tmp_path: Path) -> None:
    """A missing log gives an empty text."""
    assert failure_line(tmp_path / "log.txt") == ""
