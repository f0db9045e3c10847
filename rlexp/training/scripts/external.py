"""Training by an external script: starts it, follows its results file, and ends its processes."""

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGKILL, Signals
from typing import Any

from rlexp.errors import DISK_ERRORS, RecordError
from rlexp.protocol.budget import Budget, overtime_text
from rlexp.protocol.spec import RunSpec
from rlexp.protocol.units import ENVIRONMENT_STEPS
from rlexp.protocol.vector_scores import NO_VECTORS, VectorScores
from rlexp.records.events import (
    Continued,
    Ending,
    Evaluated,
    Failure,
    Measured,
    RunEnded,
    StopRequest,
)
from rlexp.training import Listener
from rlexp.training.scripts.script_results import (
    EarlierAttempt,
    Results,
    ScriptEvent,
    ScriptFault,
    Tail,
)
from rlexp.training.stopping import Stopped, TimedOut

VERSION = 1
"""Version of the format of the configuration file."""
POLL = 0.05
"""Seconds between two reads of the results file."""
GRACE = 5.0
"""Seconds between the request to terminate a script and killing it."""
CLEARING = 5.0
"""Seconds to wait for killed processes to disappear."""
SHELL = 128
"""Exit code of a shell minus the signal number that ended its command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A script that is ready to be started.

    Attributes:
        words: The command as a list of arguments.
        variables: All environment variables of its process.
        configuration: The configuration file that the script reads.
        told: The content of the configuration file as JSON values.
        results: The results file that the script appends to.
        folder: A folder for any other files of the script.
        last_words: Returns the last line that the script printed, or an empty string.
        memory_kills: Returns how many processes the kernel has killed for lack of memory so far.
        scalars: Returns new scalars that the script has logged into event files: steps with their
            scalars by name. Its argument says whether the script has ended.
        earlier: Earlier attempts by number, if the script may continue from its checkpoints.
        unit: The unit of its steps.
        vectors: What the environment declares about vectors of returns.
    """

    words: Sequence[str]
    variables: Mapping[str, str]
    configuration: Path
    told: Mapping[str, Any]
    results: Path
    folder: Path
    last_words: Callable[[], str] = str
    memory_kills: Callable[[], int] = int
    scalars: Callable[[bool], Sequence[tuple[int, Mapping[str, float]]]] = lambda _: ()
    earlier: Mapping[int, EarlierAttempt] = field(default_factory=dict)
    unit: str = ENVIRONMENT_STEPS
    vectors: VectorScores = NO_VECTORS


def script_configuration(
    spec: RunSpec, budget: Budget, *, task: str, attempt: int, results: Path, folder: Path
) -> dict[str, Any]:
    """Return the content of the configuration file of a script.

    Args:
        spec: The run.
        budget: The budget of the run, with its time limit.
        task: The name under which scores are compared.
        attempt: The number of the attempt, from 1.
        results: The results file.
        folder: A folder for any other files of the script.
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
            "attempt": attempt,
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
    """Let a script train one run until it ends; failures are returned, never raised.

    Args:
        script: The script to start.
        budget: The budget that its results are checked against.
        listener: Receives every event; the last event is also returned.
        check: Called before the script is started; a RecordError interrupts the run.
    """
    results = Results(
        budget, listener.now, earlier=script.earlier, unit=script.unit, vectors=script.vectors
    )
    request: StopRequest | None = None
    fault: ScriptFault | None = None
    listener.goes_on_from(None)
    try:
        check()
        _follow(script, results, budget, listener)
    except Stopped as stopped:
        request = stopped.request
    except TimedOut:
        fault = ScriptFault(Failure.TIMEOUT, overtime_text(budget.timeout or 0.0))
    except RecordError as error:
        request = StopRequest(Ending.INTERRUPTED, str(error))
    except OSError as error:
        fault = ScriptFault(
            _failure_of(error), " ".join(f"{type(error).__name__}: {error}".split())
        )
    except ScriptFault as error:
        # An error during a requested stop is caused by the stop, not by the script.
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
        step=results.furthest_step,
        ending=ending,
        seconds=results.earlier_seconds + listener.elapsed(),
        reason=reason,
        **more,
    )


def _follow(script: Script, results: Results, budget: Budget, listener: Listener) -> None:
    """Start a script, and emit the events of its results and its event files until it has ended."""
    tail, kills = Tail(script.results), script.memory_kills()
    final: list[Evaluated] = []
    try:
        code = _follow_process(script, results, budget, listener, tail, final)
    except Stopped as stopped:
        if stopped.request.ending is Ending.INTERRUPTED:
            # What the script wrote before it ended counts for the attempt that continues.
            with suppress(ScriptFault):
                for line in tail.read():
                    _emit_line(results.read(line), final, listener)
        raise
    for event in final:
        listener.emit(event)
    if code:
        raise _died(code, script, by_kernel=script.memory_kills() > kills)
    results.check_whole()


def _follow_process(
    script: Script,
    results: Results,
    budget: Budget,
    listener: Listener,
    tail: Tail,
    final: list[Evaluated],
) -> int:
    """Start a script and emit its events until it has ended; returns its exit code."""
    code = None
    with started(script) as process:
        listener.beat(0)
        while code is None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(POLL)
            # Poll before reading: if the script has ended, this read sees the complete file.
            code = process.poll()
            # A script that died may have left half a line, which must not hide its exit code.
            for line in tail.read(whole=code == 0):
                _emit_line(results.read(line), final, listener)
                listener.beat(results.furthest_step)
            _emit_scalars(script, results, listener, last=code is not None)
            # After the final evaluation the result is complete: let the script end by itself.
            if (request := listener.stopping()) is not None and not results.final:
                raise Stopped(request)
            elapsed = results.earlier_seconds + listener.elapsed()
            if budget.timeout is not None and elapsed > budget.timeout:
                raise TimedOut
    return code


def _emit_line(events: Sequence[ScriptEvent], final: list[Evaluated], listener: Listener) -> None:
    """Emit the events of a line, but keep the final evaluation.

    Libraries write event files late, and what was logged before the evaluation must precede it.
    """
    for event in events:
        if isinstance(event, Continued):
            listener.goes_on_from(event.step)
        if isinstance(event, Evaluated) and event.final:
            final.append(event)
        else:
            listener.emit(event)


def _emit_scalars(script: Script, results: Results, listener: Listener, *, last: bool) -> None:
    """Emit the new scalars of the event files of a script."""
    for step, metrics in script.scalars(last):
        # Scripts also number other things than steps, such as the episodes of an evaluation.
        if results.logged <= step <= results.largest_step:
            results.logged = step
            listener.emit(Measured(time=listener.now(), step=step, metrics=dict(metrics)))
            listener.beat(results.furthest_step)


def _died(code: int, script: Script, *, by_kernel: bool) -> ScriptFault:
    """Return the fault of a script that ended with an error, with the last line it printed."""
    last_line = script.last_words()
    number = -code if code < 0 else code - SHELL
    try:
        # A script may choose an exit code above 128 itself, to which no signal belongs.
        name = Signals(number).name if number > 0 else ""
    except ValueError:
        name = ""
    detail = f": {last_line}" if last_line else ""
    if not name:
        return ScriptFault(Failure.USER, f"the script ended with code {code}{detail}")
    # A user or a scheduler may also send SIGKILL: only the kernel's counter shows the cause.
    memory = number == SIGKILL and by_kernel
    failure = Failure.OUT_OF_MEMORY if memory else Failure.CRASHED
    return ScriptFault(failure, f"the script was killed by signal {number} ({name}){detail}")


@contextmanager
def started(script: Script) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a script in the process group of this process, and end it with all its children.

    Killing the process group of the run therefore also kills the script.
    """
    script.folder.mkdir(exist_ok=True)
    script.configuration.write_text(json.dumps(script.told, indent=2) + "\n")
    # The file exists from the start, so that its absence means that the script removed it.
    script.results.touch()
    try:
        # Without standard input, a script that asks a question fails instead of hanging.
        process = subprocess.Popen(
            list(script.words), env=dict(script.variables), stdin=subprocess.DEVNULL
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ScriptFault(
            Failure.USER,
            f"the command cannot be started: {script.words[0]}: {reason}; correct "
            "algorithm.command, whose files are seen from the folder of the rlexp command",
        ) from error
    try:
        yield process
    finally:
        terminate_with_children(process, GRACE)


def _failure_of(error: OSError) -> Failure:
    return Failure.DISK if error.errno in DISK_ERRORS else Failure.USER


def terminate_with_children(process: "subprocess.Popen[bytes]", grace: float) -> None:
    """Terminate a process and its descendants, and kill those alive after `grace` seconds.

    Killed processes are gone when this returns, unless the system needs more than `CLEARING`
    seconds.
    """
    import psutil

    if process.poll() is not None:
        return
    try:
        leader = psutil.Process(process.pid)
        # Listed before anything ends: orphans lose their link to the leader.
        family = [leader, *leader.children(recursive=True)]
    except psutil.Error:
        process.wait()
        return
    for member in family:
        with suppress(psutil.Error):
            member.terminate()
    _, alive = psutil.wait_procs(family, grace)
    killed = list(alive)
    for member in alive:
        with suppress(psutil.Error):
            # Processes that it has started since the first listing.
            killed += member.children(recursive=True)
    for member in killed:
        with suppress(psutil.Error):
            member.kill()
    psutil.wait_procs(killed, CLEARING)
    process.wait()
