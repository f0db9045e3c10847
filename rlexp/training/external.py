"""One training by a script: started, followed by what it writes, ended with all it started."""

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL, Signals
from typing import Any

from rlexp.errors import DISK_ERRORS, RecordError
from rlexp.protocol.budget import Budget
from rlexp.protocol.spec import RunSpec
from rlexp.records.events import Ending, Failure, RunEnded, StopRequest
from rlexp.training import Listener
from rlexp.training.results import Faulty, Results, Tail
from rlexp.training.stopping import Stopped, TimedOut

VERSION = 1
"""Of the configuration file."""
POLL = 0.05
"""Seconds between looks at the results file."""
GRACE = 5.0
"""Seconds that a script gets to end itself once it is asked to."""
CLEARING = 5.0
"""Seconds that the system gets to clear away what was killed."""
SHELL = 128
"""What a shell adds to the number of a signal that ended its command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A script that is ready to be started.

    Attributes:
        words: Its command.
        variables: Every variable of its environment.
        configuration: Where it is told what to do.
        told: What it is told there, as JSON values.
        results: Where it writes what it did.
        folder: Where it may write whatever else it likes.
        last_words: The last line that it printed, or nothing.
        memory_kills: How often the kernel has killed a process for memory so far.
    """

    words: Sequence[str]
    variables: Mapping[str, str]
    configuration: Path
    told: Mapping[str, Any]
    results: Path
    folder: Path
    last_words: Callable[[], str] = str
    memory_kills: Callable[[], int] = int


def told_to_script(
    spec: RunSpec, budget: Budget, *, task: str, results: Path, folder: Path
) -> dict[str, Any]:
    """The content of a script's configuration file.

    Args:
        spec: The run.
        budget: Its budget, with its time limit.
        task: The name under which scores are compared.
        results: Where to write results.
        folder: Where to write whatever else.
    """
    streams = spec.streams
    count = spec.environment.get("vector", {}).get("count", 1)
    evaluations = budget.steps // budget.evaluation_every if budget.evaluation_every else 0
    return {
        "version": VERSION,
        "run": {
            "id": spec.id,
            "name": spec.name,
            "phase": str(spec.phase),
            "root": spec.root,
            "seed": spec.seed,
        },
        "seed": streams.policy,
        "seeds": {
            "policy": streams.policy,
            "actions": streams.actions,
            "training": [streams.training(i) for i in range(count)],
            "evaluation": [streams.evaluation(i, 0) for i in range(evaluations + 1)],
        },
        "budget": {**budget.defining(), "timeout": budget.timeout},
        "task": task,
        "environment": spec.environment,
        "agent": spec.agent,
        "settings": spec.algorithm.get("settings", {}),
        "compute": spec.compute,
        "results": str(results),
        "folder": str(folder),
    }


def train_by_script(
    script: Script, budget: Budget, listener: Listener, check: Callable[[], object] = lambda: None
) -> RunEnded:
    """Let a script train one run to its end; every failure is a value, none an exception.

    Args:
        script: What to start.
        budget: What its results must keep to.
        listener: Told of every event; the last is returned too.
        check: Asked before the script is started; a RecordError interrupts the run.
    """
    results = Results(budget, listener.now)
    request: StopRequest | None = None
    fault: Faulty | None = None
    listener.goes_on_from(None)
    try:
        check()
        _follow(script, results, budget, listener)
    except Stopped as stopped:
        request = stopped.request
    except TimedOut:
        fault = Faulty(Failure.TIMEOUT, f"not done after {budget.timeout:g} s")
    except RecordError as error:
        request = StopRequest(Ending.INTERRUPTED, str(error))
    except OSError as error:
        fault = Faulty(_failure_of(error), " ".join(f"{type(error).__name__}: {error}".split()))
    except Faulty as error:
        # What breaks while a run is being ended is no fault of the run.
        request, fault = listener.stopping(), error
    if request is not None:
        ended = _ended(listener, results, request.ending, request.reason, rung=request.rung)
    elif fault is not None:
        ended = _ended(listener, results, Ending.FAILED, str(fault), failure=fault.failure)
    else:
        ended = _ended(listener, results, Ending.COMPLETED, None)
    listener.emit(ended)
    return ended


def _ended(
    listener: Listener, results: Results, ending: Ending, reason: str | None, **more: Any
) -> RunEnded:
    return RunEnded(
        time=listener.now(),
        step=results.step,
        ending=ending,
        seconds=listener.elapsed(),
        reason=reason,
        **more,
    )


def _follow(script: Script, results: Results, budget: Budget, listener: Listener) -> None:
    """Start a script, and emit what it writes until it has ended."""
    tail, kills, code = Tail(script.results), script.memory_kills(), None
    with _started(script) as process:
        listener.beat(0)
        while code is None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(POLL)
            # Asked before the file is read: what is there then is all there is.
            code = process.poll()
            # What a script that died has left unfinished is no line.
            for line in tail.read(whole=code == 0):
                for event in results.read(line):
                    listener.emit(event)
                listener.beat(results.step)
            if (request := listener.stopping()) is not None and not results.final:
                raise Stopped(request)
            if budget.timeout is not None and listener.elapsed() > budget.timeout:
                raise TimedOut
    if code:
        raise _died(code, script, by_kernel=script.memory_kills() > kills)
    results.check_whole()


def _died(code: int, script: Script, *, by_kernel: bool) -> Faulty:
    """Why a script did not end well, with its last words."""
    words = script.last_words()
    number = -code if code < 0 else code - SHELL
    try:
        name = Signals(number).name if number > 0 else ""
    except ValueError:
        name = ""
    said = f": {words}" if words else ""
    if not name:
        return Faulty(Failure.USER, f"the script ended with code {code}{said}")
    memory = number == SIGKILL and by_kernel
    failure = Failure.OUT_OF_MEMORY if memory else Failure.CRASHED
    return Faulty(failure, f"the script was killed by signal {number} ({name}){said}")


@contextmanager
def _started(script: Script) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a script, in the group of this process, with which it dies; in the end, end it."""
    script.folder.mkdir(exist_ok=True)
    script.configuration.write_text(json.dumps(script.told, indent=2) + "\n")
    script.results.touch()
    try:
        process = subprocess.Popen(
            list(script.words), env=dict(script.variables), stdin=subprocess.DEVNULL
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise Faulty(
            Failure.USER,
            f"the command cannot be started: {script.words[0]}: {reason}; correct "
            "algorithm.command, whose files are seen from the folder of the rlexp command",
        ) from error
    try:
        yield process
    finally:
        end(process, GRACE)


def _failure_of(error: OSError) -> Failure:
    return Failure.DISK if error.errno in DISK_ERRORS else Failure.USER


def end(process: "subprocess.Popen[bytes]", grace: float) -> None:
    """Ask a process and all it started to end, and kill after some seconds what still lives.

    What was killed is gone when this returns, unless the system takes very long.
    """
    import psutil

    if process.poll() is not None:
        return
    try:
        own = psutil.Process(process.pid)
        family = [own, *own.children(recursive=True)]
    except psutil.Error:
        process.wait()
        return
    for one in family:
        with suppress(psutil.Error):
            one.terminate()
    _, alive = psutil.wait_procs(family, grace)
    killed = list(alive)
    for one in alive:
        with suppress(psutil.Error):
            # What it has started since, too.
            killed += one.children(recursive=True)
    for one in killed:
        with suppress(psutil.Error):
            one.kill()
    psutil.wait_procs(killed, CLEARING)
    process.wait()
