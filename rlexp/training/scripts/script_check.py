"""Starts a training script to check its settings: it ends where it would report its first step."""

import json
import re
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from signal import Signals

from rlexp.trainer import CHECKED
from rlexp.training.scripts.external import POLL, SHELL, Script, started
from rlexp.training.scripts.script_results import ScriptFault, Tail

CHECKED_KEY = "checked"
"""Key of the line with which `rlexp.trainer` says that a script has accepted its settings."""
OF_THE_MACHINE = re.compile(
    r"\b(OSError|BlockingIOError|MemoryError|InterruptedError|KeyboardInterrupt|\w*(Connection|Timeout|URL|HTTP)\w*)\b"
    r"|out of memory|RESOURCE_EXHAUSTED|No space left|Aborted",
    re.IGNORECASE,
)
"""Errors of the machine, the network or the moment, which say nothing about the settings."""
OF_THE_CHECK = re.compile(r"AskedSettings|cannot represent an object")
"""Errors of libraries that take no settings but those of the exact type `dict`."""


class Acceptance(StrEnum):
    """What a check has found out."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    SILENT = "silent"


@dataclass(frozen=True, slots=True)
class ScriptAnswer:
    """The answer of a script to a check.

    Attributes:
        acceptance: Whether the script accepts its settings; a silent one does not say.
        text: Why it refuses them, or why it counts as silent.
    """

    acceptance: Acceptance
    text: str = ""


def ask_script(
    script: Script, limit: float, monotonic: Callable[[], float] = time.monotonic
) -> ScriptAnswer:
    """Start a script that is asked to check its settings, and end it with its answer.

    Args:
        script: The script; the variable `CHECKS` is among its variables.
        limit: Seconds after which it counts as silent.
        monotonic: Returns the time in seconds.
    """
    tail, deadline = Tail(script.results), monotonic() + limit
    try:
        with started(script) as process:
            while monotonic() < deadline:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(POLL)
                # Poll before reading: if the script has ended, this read sees the complete file.
                code = process.poll()
                if lines := tail.read(whole=code is not None):
                    return _answer_of(lines)
                if code is not None:
                    return _answer_by_code(code, script)
    except ScriptFault as fault:
        return ScriptAnswer(Acceptance.REFUSED, str(fault))
    return ScriptAnswer(Acceptance.SILENT, f"it reported nothing for {limit:g} s")


def _answer_of(lines: Sequence[bytes]) -> ScriptAnswer:
    """The answer of a script that has written results."""
    with suppress(ValueError, TypeError):
        # A program that starts the script may end with a code of its own.
        if CHECKED_KEY in json.loads(lines[0]):
            return ScriptAnswer(Acceptance.ACCEPTED)
    return ScriptAnswer(Acceptance.SILENT, "it trains instead of answering")


def _answer_by_code(code: int, script: Script) -> ScriptAnswer:
    """The answer of a script that has ended without results."""
    if code == CHECKED:
        return ScriptAnswer(Acceptance.ACCEPTED)
    if code == 0:
        return ScriptAnswer(Acceptance.SILENT, "it ended without a report")
    signal = -code if code < 0 else code - SHELL
    if signal in set(Signals):
        # The system may have killed it for lack of memory, which says nothing about the settings.
        return ScriptAnswer(Acceptance.SILENT, f"it was killed by signal {signal}")
    line = script.last_words() or f"it ended with code {code}"
    if OF_THE_MACHINE.search(line):
        return ScriptAnswer(Acceptance.SILENT, f"it ended with an error of the machine ({line})")
    if OF_THE_CHECK.search(line):
        return ScriptAnswer(Acceptance.SILENT, f"it needs dict(run.settings) in a check ({line})")
    return ScriptAnswer(Acceptance.REFUSED, line)
