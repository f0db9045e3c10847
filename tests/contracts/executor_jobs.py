"""The jobs of the executor tests, imported by the processes that execute them."""

import ctypes
import os
import signal
import subprocess
import sys
import time


def execute(words: list[str]) -> int:  # noqa: PLR0912 (one case a job)
    """Execute the job that the first argument names."""
    match words:
        case ["code", number]:
            return int(number)
        case ["say", text]:
            print(text)
            print(text.upper(), file=sys.stderr)
        case ["raise"]:
            raise RuntimeError("a job that raises")
        case ["die"]:
            os.kill(os.getpid(), signal.SIGKILL)
        case ["sleep"]:
            time.sleep(1000)
        case ["family", path]:
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
            _write(path, child.pid)
            time.sleep(1000)
        case ["helpers", path, *then]:
            _start_helpers(path)
            # The second function of C keeps the lock of the interpreter: no thread runs.
            library = ctypes.PyDLL(None) if then == ["hold"] else ctypes.CDLL(None)
            # A request for a stack dump ends one call.
            while then:
                library.sleep(1000)
        case ["term", path]:
            signal.signal(signal.SIGTERM, lambda *_: _write(path, "told"))
            _write(path + ".ready", 1)
            while not os.path.exists(path):  # noqa: PTH110
                time.sleep(0.01)
        case ["session", path]:
            _write(path, f"{os.getpid()} {os.getsid(0)}")
        case ["flood", megabytes]:
            for _ in range(int(megabytes) * 10):
                os.write(1, b"x" * 100_000)
                time.sleep(0.02)
    return 0


def _start_helpers(path: str) -> None:
    """Start a process in a session of its own, and one whose parent has ended."""
    sleep = "import os, time; print(os.getpid(), flush=True); time.sleep(1000)"
    daemon = f"import os; os.fork() and os._exit(0); os.setsid(); {sleep}"
    pids = [os.getpid()]
    for program in (sleep, daemon):
        helper = subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, start_new_session=True
        )
        assert helper.stdout is not None
        pids.append(int(helper.stdout.readline()))
    _write(path, " ".join(map(str, pids)))


def _write(path: str, value: object) -> None:
    with open(path + ".part", "w", encoding="utf-8") as file:  # noqa: PTH123
        file.write(str(value))
    os.replace(path + ".part", path)  # noqa: PTH105
