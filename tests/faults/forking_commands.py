"""Gives commands of rlexp in forks of one warm process: a hundred of them take seconds."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO


@dataclass(frozen=True, slots=True)
class Told:
    """What a command printed, and its exit code."""

    code: int
    text: str

    @property
    def has_traceback(self) -> bool:
        """Whether a user would see a traceback."""
        return "Traceback (most recent call last)" in self.text


@dataclass(frozen=True, slots=True)
class Commands:
    """A warm process."""

    process: subprocess.Popen[str]

    def give(self, folder: Path, *words: str) -> Told:
        """Give a command in a folder, and wait for it."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([str(folder), *words]) + "\n")
        self.process.stdin.flush()
        code, text = json.loads(self.process.stdout.readline())
        return Told(code, text)


@contextmanager
def warm_commands(home: Path, **variables: str) -> Iterator[Commands]:
    """A warm process; `home` holds what commands remember, `variables` are in their environment."""
    words = [sys.executable, "-P", __file__]
    environment = {
        **os.environ,
        "RLEXP_HOME": str(home),
        "NO_COLOR": "1",
        "OMP_NUM_THREADS": "1",
        **variables,
    }
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        yield Commands(process)
        assert process.stdin is not None
        process.stdin.close()


def _serve() -> None:
    import rlexp.app.evaluate
    import rlexp.app.playback
    import rlexp.app.report
    import rlexp.app.resume
    import rlexp.app.sweep  # noqa: F401

    for line in sys.stdin:
        folder, *words = json.loads(line)
        with tempfile.TemporaryFile() as output:
            pid = os.fork()
            if pid == 0:
                _become(folder, words, output)
            _, status = os.waitpid(pid, 0)
            output.seek(0)
            text = output.read().decode(errors="replace")
        sys.stdout.write(json.dumps([os.waitstatus_to_exitcode(status), text]) + "\n")
        sys.stdout.flush()


def _become(folder: str, words: Sequence[str], output: IO[bytes]) -> None:
    """Run a command in this fork, as a process of its own would."""
    import traceback

    from rlexp.cli import main

    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    os.chdir(folder)
    sys.argv = ["rlexp", *words]
    code = 0
    try:
        main()
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
    except BaseException:  # noqa: BLE001
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _serve()
