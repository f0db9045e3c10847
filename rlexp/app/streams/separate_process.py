"""Asks a process that imports another checkout than this one."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from rlexp.app.reproduction.checkout import Checkout, import_variables
from rlexp.errors import ExecutorError

LAST_LINES = 3
"""Lines of standard error that an error shows."""


def ask(module: str, question: Mapping[str, Any], checkout: Checkout) -> dict[str, Any]:
    """The answer of a module that is executed in a checkout.

    Python's safe path keeps modules of the checkout from replacing installed ones: its folder comes
    last on the path, as in every run.

    Args:
        module: The module, which reads JSON on standard input and writes JSON on standard output.
        question: What it reads.
        checkout: The folder in which it is executed, and from which it imports.

    Raises:
        ExecutorError: The process has ended without an answer.
    """
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", module],
        cwd=checkout.folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **import_variables(checkout)},
        # A Ctrl-C in the terminal reaches this process alone, which then ends the other one.
        start_new_session=True,
    )
    try:
        output, problems = process.communicate(json.dumps(dict(question)).encode())
    finally:
        process.kill()
        process.wait()
    try:
        answer: dict[str, Any] = json.loads(output)
    except ValueError as error:
        lines = problems.decode(errors="replace").strip().splitlines()[-LAST_LINES:]
        reason = " / ".join(lines) or f"it ended with code {process.returncode}"
        raise ExecutorError(
            f"the process of {module} in {checkout.folder} failed: {reason}"
        ) from error
    return answer
