"""Training by an external script: starts it, reads its results file, and ends its processes.

`Tail` reads the growing results file, `Results` checks its lines and turns them into events, and
`train_by_script` supervises the process of the script.
"""

import json
import math
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGKILL, Signals
from typing import Any

from rlexp.errors import DISK_ERRORS, RecordError, did_you_mean
from rlexp.protocol.budget import Budget, overtime_text
from rlexp.protocol.spec import RunSpec
from rlexp.records.events import Ending, Evaluated, Failure, Measured, RunEnded, StopRequest
from rlexp.records.scored_measure import lacking_measure
from rlexp.training import Listener
from rlexp.training.stopping import Stopped, TimedOut

KEYS = ("step", "metrics", "returns", "lengths", "seconds", "measures", "final")
EVALUATION_KEYS = KEYS[2:]
LEAST, MOST = 0.9, 2.0
"""Allowed final step as a factor of the budget; scripts that train in whole rollouts miss it."""
LONGEST_LINE = 1 << 24
"""Longest line of the results file, in bytes."""


class ScriptFault(Exception):  # noqa: N818
    """A script crashed, or did not write valid results."""

    def __init__(self, failure: Failure, reason: str) -> None:
        super().__init__(reason)
        self.failure = failure


@dataclass(slots=True)
class Tail:
    """Reads a file as it grows, line by line."""

    path: Path
    _offset: int = 0
    _rest: bytes = b""

    def read(self, *, whole: bool = False) -> list[bytes]:
        """Return new complete lines; with `whole`, also an unterminated last line.

        Raises:
            ScriptFault: The file was truncated or removed, or a line is too long.
        """
        try:
            if self.path.stat().st_size < self._offset:
                raise ScriptFault(Failure.USER, "the results file was cut: append to it")
            with self.path.open("rb") as file:
                file.seek(self._offset)
                content = file.read()
        except FileNotFoundError as error:
            raise ScriptFault(
                Failure.USER, "the results file was removed: append to it"
            ) from error
        self._offset += len(content)
        *lines, self._rest = (self._rest + content).split(b"\n")
        if len(self._rest) > LONGEST_LINE:
            raise ScriptFault(
                Failure.USER, f"a line of the results file exceeds {LONGEST_LINE:,} bytes"
            )
        if whole:
            lines.append(self._rest)
        return [line for line in lines if line.strip()]


@dataclass(slots=True)
class Results:
    """Turns lines of a results file into events, and refuses invalid lines.

    Attributes:
        budget: The budget that steps and numbers of episodes are checked against.
        now: Returns seconds since 1970.
        step: The step of the last line.
        evaluations: Steps of the evaluations so far, without the final one.
        final: Whether the final evaluation was read.
        logged: The last step of the event files of the script.
    """

    budget: Budget
    now: Callable[[], float]
    step: int = 0
    evaluations: list[int] = field(default_factory=list)
    final: bool = False
    logged: int = 0
    _number: int = 0

    @property
    def largest_step(self) -> int:
        """The largest step that the budget allows."""
        return int(MOST * self.budget.steps)

    @property
    def furthest_step(self) -> int:
        """The furthest step of the results and the event files; the final evaluation decides."""
        return self.step if self.final else max(self.step, self.logged)

    def read(self, line: bytes) -> list[Measured | Evaluated]:
        """Return the events of a line; a line with only a step is a heartbeat and gives no event.

        Raises:
            ScriptFault: The line is invalid; the message says why.
        """
        self._number += 1
        entry = self._parsed(line)
        if self.final:
            raise self._fault("no line may follow the final evaluation")
        self.step = self._checked_step(entry.get("step"))
        events: list[Measured | Evaluated] = []
        if "metrics" in entry:
            metrics = self._numbers(entry["metrics"], "metrics")
            events.append(Measured(time=self.now(), step=self.step, metrics=metrics))
        if "returns" in entry:
            events.append(self._evaluated(entry))
        elif orphans := [key for key in EVALUATION_KEYS if key in entry]:
            raise self._fault(f"{orphans[0]} needs returns in the same line")
        return events

    def check_whole(self) -> None:
        """Refuse results without the evaluations that the score needs.

        Raises:
            ScriptFault: An evaluation is missing; the message says which.
        """
        if not self.final:
            raise ScriptFault(
                Failure.USER,
                f"the script ended at step {self.step} without a final evaluation: the last line "
                'needs "returns" and "final": true',
            )
        if self.budget.reads_curve and not self.evaluations:
            raise ScriptFault(
                Failure.USER,
                f"budget.score={self.budget.score} reads the evaluations during training, and the "
                "script wrote none",
            )

    def _parsed(self, line: bytes) -> Mapping[str, Any]:
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise self._fault(f"it is not JSON: {_quoted(line)}") from error
        if not isinstance(entry, Mapping):
            raise self._fault(f"it is not a JSON object: {_quoted(line)}")
        for key in entry:
            if key not in KEYS:
                raise self._fault(
                    f"unknown key {key!r}{did_you_mean(key, KEYS)} (there are: {', '.join(KEYS)})"
                )
        return entry

    def _checked_step(self, step: Any) -> int:
        if type(step) is not int or step < 0:
            raise self._fault(f"step={step!r} is no number of environment steps")
        if step < self.step:
            raise self._fault(f"step {step} goes back behind step {self.step}")
        if step > self.largest_step:
            raise self._fault(f"step {step} is far beyond budget.steps={self.budget.steps}")
        return step

    def _evaluated(self, entry: Mapping[str, Any]) -> Evaluated:
        final = entry.get("final", False)
        if type(final) is not bool:
            raise self._fault(f"final={final!r} is neither true nor false")
        returns = self._returns(entry["returns"], final=final)
        seconds = entry.get("seconds", 0.0)
        if not _is_number(seconds) or not 0 <= seconds < math.inf:
            raise self._fault(f"seconds={seconds!r} is no duration")
        try:
            measures = self._measures(entry.get("measures"))
            more = {} if measures is None else {"measures": measures}
            event = Evaluated(
                time=self.now(),
                step=self.step,
                returns=returns,
                lengths=self._lengths(entry.get("lengths"), len(returns)),
                seconds=float(seconds),
                final=final,
                **more,
            )
        except ValueError as error:
            raise self._fault(str(error)) from error
        if reason := lacking_measure(event, self.budget.score):
            raise self._fault(reason)
        self._note_evaluation(final=final)
        return event

    def _note_evaluation(self, *, final: bool) -> None:
        """Note an evaluation; refuse an early final one and a second one at the same step."""
        if final:
            self.final = True
            if self.step < LEAST * self.budget.steps:
                raise self._fault(
                    f"the final evaluation is at step {self.step}, well before "
                    f"budget.steps={self.budget.steps}: train for the whole budget"
                )
            return
        if self.evaluations and self.evaluations[-1] == self.step:
            raise self._fault(f"step {self.step} has two evaluations")
        self.evaluations.append(self.step)

    def _returns(self, values: Any, *, final: bool) -> tuple[float, ...]:
        name = "final_episodes" if final else "evaluation_episodes"
        expected = getattr(self.budget, name)
        if not isinstance(values, list) or not all(map(_is_number, values)):
            raise self._fault("returns must be a list of numbers, one for each episode")
        if len(values) != expected:
            raise self._fault(f"{len(values)} returns, where budget.{name}={expected}")
        if not all(map(math.isfinite, values)):
            raise ScriptFault(Failure.NAN, f"a return is no finite number at step {self.step}")
        return tuple(map(float, values))

    def _lengths(self, values: Any, episodes: int) -> tuple[int, ...]:
        if values is None:
            return ()
        # `type(n) is int` because JSON's true would pass as an int.
        is_valid = isinstance(values, list) and all(type(n) is int and n > 0 for n in values)
        if not is_valid or len(values) != episodes:
            raise self._fault("lengths must be a list of whole numbers, one for each episode")
        return tuple(values)

    def _measures(self, values: Any) -> dict[str, tuple[float, ...]] | None:
        if values is None:
            return None
        if not isinstance(values, Mapping):
            raise self._fault("measures must be a mapping from names to lists of numbers")
        measures = {}
        for name, column in values.items():
            if not isinstance(column, list) or not all(n is None or _is_number(n) for n in column):
                raise self._fault(f"measures.{name} must be a list of numbers and nulls")
            measures[name] = tuple(math.nan if n is None else float(n) for n in column)
        return measures

    def _numbers(self, values: Any, what: str) -> dict[str, float]:
        if not isinstance(values, Mapping) or not all(map(_is_number, values.values())):
            raise self._fault(f"{what} must be a mapping from names to numbers")
        return {name: float(value) for name, value in values.items()}

    def _fault(self, reason: str) -> ScriptFault:
        return ScriptFault(Failure.USER, f"line {self._number} of the results file: {reason}")


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        # JSON has whole numbers that are too large for a float.
        float(value)
    except OverflowError:
        return False
    return True


def _quoted(line: bytes) -> str:
    text = line.decode(errors="replace").strip()
    return repr(text if len(text) <= 80 else f"{text[:80]}…")


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


def script_configuration(
    spec: RunSpec, budget: Budget, *, task: str, results: Path, folder: Path
) -> dict[str, Any]:
    """Return the content of the configuration file of a script.

    Args:
        spec: The run.
        budget: The budget of the run, with its time limit.
        task: The name under which scores are compared.
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
    results = Results(budget, listener.now)
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
        seconds=listener.elapsed(),
        reason=reason,
        **more,
    )


def _follow(script: Script, results: Results, budget: Budget, listener: Listener) -> None:
    """Start a script, and emit the events of its results and its event files until it has ended."""
    tail, kills, code = Tail(script.results), script.memory_kills(), None
    final: list[Evaluated] = []
    with _started(script) as process:
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
            if budget.timeout is not None and listener.elapsed() > budget.timeout:
                raise TimedOut
    for event in final:
        listener.emit(event)
    if code:
        raise _died(code, script, by_kernel=script.memory_kills() > kills)
    results.check_whole()


def _emit_line(
    events: Sequence[Measured | Evaluated], final: list[Evaluated], listener: Listener
) -> None:
    """Emit the events of a line, but keep the final evaluation.

    Libraries write event files late, and what was logged before the evaluation must precede it.
    """
    for event in events:
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
def _started(script: Script) -> Iterator["subprocess.Popen[bytes]"]:
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
