"""The jobs of the executor tests, imported by the processes that execute them."""

import os
import signal
import subprocess
import sys
import time


def execute(words: list[str]) -> int:
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
        case ["term", path]:
            signal.signal(signal.SIGTERM, lambda *_: _write(path, "told"))
            _write(path + ".ready", 1)
            while not os.path.exists(path):  # noqa: PTH110
                time.sleep(0.01)
        case ["session", path]:
            _write(path, f"{os.getpid()} {os.getsid(0)} {os.getppid()}")
        case ["flood", megabytes]:
            for _ in range(int(megabytes) * 10):
                os.write(1, b"x" * 100_000)
                time.sleep(0.02)
    return 0


def _write(path: str, value: object) -> None:
    with open(path + ".part", "w", encoding="utf-8") as file:  # noqa: PTH123
        file.write(str(value))
    os.replace(path + ".part", path)  # noqa: PTH105
