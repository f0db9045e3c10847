"""One training by a script: started, followed by what it writes, ended with all it started."""

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
from rlexp.protocol.budget import Budget
from rlexp.protocol.spec import RunSpec
from rlexp.records.events import Ending, Evaluated, Failure, Measured, RunEnded, StopRequest
from rlexp.training import Listener
from rlexp.training.stopping import Stopped, TimedOut

KEYS = ("step", "metrics", "returns", "lengths", "seconds", "measures", "final")
OF_EPISODES = KEYS[2:]
LEAST, MOST = 0.9, 2.0
"""Of the budget: whole rollouts may end a little before it, or well after it."""
LONGEST_LINE = 1 << 24
"""Bytes."""


class Faulty(Exception):  # noqa: N818
    """A script did not do what was asked of it."""

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
        """Complete lines that were not read before; with `whole`, what is left over is one too.

        Raises:
            Faulty: The file was cut or removed, or a line is endless.
        """
        try:
            if self.path.stat().st_size < self._offset:
                raise Faulty(Failure.USER, "the results file was cut: append to it")
            with self.path.open("rb") as file:
                file.seek(self._offset)
                content = file.read()
        except FileNotFoundError as error:
            raise Faulty(Failure.USER, "the results file was removed: append to it") from error
        self._offset += len(content)
        *lines, self._rest = (self._rest + content).split(b"\n")
        if len(self._rest) > LONGEST_LINE:
            raise Faulty(
                Failure.USER, f"a line of the results file exceeds {LONGEST_LINE:,} bytes"
            )
        if whole:
            lines.append(self._rest)
        return [line for line in lines if line.strip()]


@dataclass(slots=True)
class Results:
    """Turns lines into events, in their order; what makes no sense is refused.

    Attributes:
        budget: What the lines must keep to.
        now: Seconds since 1970.
        step: The step of the last line.
        evaluations: Steps of the evaluations so far, the final one left out.
        final: Whether the final evaluation has come.
    """

    budget: Budget
    now: Callable[[], float]
    step: int = 0
    evaluations: list[int] = field(default_factory=list)
    final: bool = False
    _number: int = 0

    def read(self, line: bytes) -> list[Measured | Evaluated]:
        """The events that a line tells; one that has only a step is a sign of life.

        Raises:
            Faulty: Says what is wrong with it.
        """
        self._number += 1
        plain = self._parsed(line)
        if self.final:
            raise self._fault("it follows the final evaluation, after which nothing may")
        self.step = self._checked_step(plain.get("step"))
        events: list[Measured | Evaluated] = []
        if "metrics" in plain:
            metrics = self._numbers(plain["metrics"], "metrics")
            events.append(Measured(time=self.now(), step=self.step, metrics=metrics))
        if "returns" in plain:
            events.append(self._evaluated(plain))
        elif given := [key for key in OF_EPISODES if key in plain]:
            raise self._fault(f"{given[0]} without returns")
        return events

    def check_whole(self) -> None:
        """Refuse results without the evaluations that the score is made of.

        Raises:
            Faulty: Says which are missing.
        """
        if not self.final:
            raise Faulty(
                Failure.USER,
                f"the script ended at step {self.step} without a final evaluation: the last line "
                'needs "returns" and "final": true',
            )
        if self.budget.score != "final" and not self.evaluations:
            raise Faulty(
                Failure.USER,
                f"budget.score={self.budget.score} reads the evaluations during training, and the "
                "script wrote none",
            )

    def _parsed(self, line: bytes) -> Mapping[str, Any]:
        try:
            plain = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise self._fault(f"it is no JSON: {_shown(line)}") from error
        if not isinstance(plain, Mapping):
            raise self._fault(f"it is no JSON object: {_shown(line)}")
        for key in plain:
            if key not in KEYS:
                raise self._fault(
                    f"unknown key {key!r}{did_you_mean(key, KEYS)} (there are: {', '.join(KEYS)})"
                )
        return plain

    def _checked_step(self, step: Any) -> int:
        if type(step) is not int or step < 0:
            raise self._fault(f"step={step!r} is no number of environment steps")
        if step < self.step:
            raise self._fault(f"step {step} goes back behind step {self.step}")
        most = int(MOST * self.budget.steps)
        if step > most:
            raise self._fault(f"step {step} is far beyond budget.steps={self.budget.steps}")
        return step

    def _evaluated(self, plain: Mapping[str, Any]) -> Evaluated:
        final = plain.get("final", False)
        if type(final) is not bool:
            raise self._fault(f"final={final!r} is neither true nor false")
        returns = self._returns(plain["returns"], final=final)
        seconds = plain.get("seconds", 0.0)
        if not _is_number(seconds) or not 0 <= seconds < math.inf:
            raise self._fault(f"seconds={seconds!r} is no duration")
        try:
            measures = self._measures(plain.get("measures"))
            more = {} if measures is None else {"measures": measures}
            event = Evaluated(
                time=self.now(),
                step=self.step,
                returns=returns,
                lengths=self._lengths(plain.get("lengths"), len(returns)),
                seconds=float(seconds),
                final=final,
                **more,
            )
        except ValueError as error:
            raise self._fault(str(error)) from error
        self._place(final=final)
        return event

    def _place(self, *, final: bool) -> None:
        """Take note of an evaluation, and refuse one at a step where none may be."""
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
        wanted = getattr(self.budget, name)
        if not isinstance(values, list) or not all(map(_is_number, values)):
            raise self._fault("returns must be a list of numbers, one for each episode")
        if len(values) != wanted:
            raise self._fault(f"{len(values)} returns, where budget.{name}={wanted}")
        if not all(map(math.isfinite, values)):
            raise Faulty(Failure.NAN, f"a return is no finite number at step {self.step}")
        return tuple(map(float, values))

    def _lengths(self, values: Any, episodes: int) -> tuple[int, ...]:
        if values is None:
            return ()
        sound = isinstance(values, list) and all(type(n) is int and n > 0 for n in values)
        if not sound or len(values) != episodes:
            raise self._fault("lengths must be a list of whole numbers, one for each episode")
        return tuple(values)

    def _measures(self, values: Any) -> dict[str, tuple[float, ...]] | None:
        if values is None:
            return None
        if not isinstance(values, Mapping):
            raise self._fault("measures must be a mapping from names to lists of numbers")
        found = {}
        for name, column in values.items():
            if not isinstance(column, list) or not all(n is None or _is_number(n) for n in column):
                raise self._fault(f"measures.{name} must be a list of numbers and nulls")
            found[name] = tuple(math.nan if n is None else float(n) for n in column)
        return found

    def _numbers(self, values: Any, what: str) -> dict[str, float]:
        if not isinstance(values, Mapping) or not all(map(_is_number, values.values())):
            raise self._fault(f"{what} must be a mapping from names to numbers")
        return {name: float(value) for name, value in values.items()}

    def _fault(self, reason: str) -> Faulty:
        return Faulty(Failure.USER, f"line {self._number} of the results file: {reason}")


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        float(value)
    except OverflowError:
        return False
    return True


def _shown(line: bytes) -> str:
    text = line.decode(errors="replace").strip()
    return repr(text if len(text) <= 80 else f"{text[:80]}…")


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
