"""Asks a process that imports another checkout than this one."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rlexp.app.reproduction.checkout import Checkout, import_variables
from rlexp.errors import ExecutorError

QUESTION, ANSWER, LOG = "question.json", "answer.json", "log.txt"
LAST_LINES = 3
"""Lines of its output that an error shows."""


def ask(module: str, question: Mapping[str, Any], checkout: Checkout) -> dict[str, Any]:
    """The answer of a module that is executed in a checkout.

    Python's safe path keeps modules of the checkout from replacing installed ones: its folder comes
    last on the path, as in every run.

    Args:
        module: The module, whose arguments are the file that it reads and the file that it writes.
        question: What it reads, as JSON values.
        checkout: The folder in which it is executed, and from which it imports.

    Raises:
        ExecutorError: The process has ended without an answer.
    """
    with TemporaryDirectory(prefix="rlexp-question-") as temporary:
        folder = Path(temporary)
        (folder / QUESTION).write_text(json.dumps(dict(question)))
        with (folder / LOG).open("wb") as log:
            code = _execute(module, folder, log.fileno(), checkout)
        try:
            answer: dict[str, Any] = json.loads((folder / ANSWER).read_text())
        except (OSError, ValueError) as error:
            lines = (folder / LOG).read_text(errors="replace").strip().splitlines()
            reason = " / ".join(lines[-LAST_LINES:]) or f"it ended with code {code}"
            raise ExecutorError(
                f"the process of {module} in {checkout.folder} failed: {reason}"
            ) from error
    return answer


def _execute(module: str, folder: Path, log: int, checkout: Checkout) -> int | None:
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", module, str(folder / QUESTION), str(folder / ANSWER)],
        cwd=checkout.folder,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        env={**os.environ, **import_variables(checkout)},
        # A Ctrl-C in the terminal reaches this process alone, which then ends the other one.
        start_new_session=True,
    )
    try:
        process.wait()
    finally:
        process.kill()
        process.wait()
    return process.returncode
