"""The process of one call: reads a request, calls the use case, and writes what happens as JSON lines.

The process waits for its request with everything imported. Afterwards its standard input says one thing:
when it ends, the client has cancelled the call or the server is gone, and the use case is interrupted like
a command by Ctrl-C. So no call outlives the server, however the server ends.
"""

import gc
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any

from rlexp.errors import Interrupted, RlexpError
from rlexp.mcp.tools import TOOLS
from rlexp.text import format_count, join_first_names, one_line

if TYPE_CHECKING:
    from rlexp.app.plans import RunPlan, SweepOutline
    from rlexp.app.results import Result
    from rlexp.engine.run_in_flight import RunInFlight
    from rlexp.engine.sweep_view import ReadSweepView
    from rlexp.records.run import RunRecord

MODULES = (
    *("rlexp.app.commands.train.run", "rlexp.app.commands.judge.report"),
    *("rlexp.app.commands.judge.compare", "rlexp.app.commands.look.show"),
    *("rlexp.app.commands.look.status", "rlexp.app.commands.look.list_runs"),
    *("rlexp.app.workspace", "rlexp.app.execution.client_words", "rlexp.app.execution.launch"),
)
"""Modules of rlexp that most calls need; none of the user's."""
GRACE = 30.0
"""Seconds that an interrupted call has to end, before it is killed."""
PROGRESS_EVERY = 0.5
"""Seconds between two lines of progress."""
MOST_NAMED = 5
"""Most names that an answer lists."""
LIMITS = ("Missing", "Looks", "Protocol")
"""Names of facts of a card that limit its answer."""


class CallChannel:
    """Writes what happens in a call, one JSON document a line; also from other threads."""

    def __init__(self, stream: IO[str]) -> None:
        """Write to a stream, which nothing else writes to."""
        self._stream = stream
        self._lock = threading.Lock()

    def send(self, kind: str, **content: Any) -> None:
        """Write a line; a server that is gone reads nothing."""
        with self._lock, suppress(OSError):
            self._stream.write(json.dumps({"kind": kind, **content}) + "\n")
            self._stream.flush()


class CallObserver:
    """Sends the progress of a use case to the server."""

    def __init__(self, channel: CallChannel) -> None:
        """Send through a channel."""
        self._channel = channel
        self._ended = 0

    def note(self, text: str) -> None:
        """Send a remark."""
        self._channel.send("note", text=text)

    def error(self, text: str) -> None:
        """Send the message of a failure."""
        self._channel.send("note", text=text)

    def plan(self, plan: "RunPlan") -> None:
        """Send which experiment is about to be trained, and what the plan warns of."""
        self._channel.send("plan", experiment=plan.experiment)
        for text in (plan.reach, plan.looks):
            if text:
                self._channel.send("note", text=text)

    def sweep_plan(self, plan: "SweepOutline") -> None:
        """Send which sweep is about to run."""
        self._channel.send("plan", experiment=plan.experiment)

    def finished(self, part: "Result") -> None:
        """Ignore one of several results."""

    @contextmanager
    def watch(self, total: int) -> "Iterator[CallWatcher]":
        """Send the progress of `total` runs, after those that this call has watched before."""
        watcher = CallWatcher(self._channel, self._ended + total, self._ended)
        yield watcher
        self._ended = watcher.number

    @contextmanager
    def watch_sweep(self, view: "ReadSweepView") -> "Iterator[CallWatcher]":
        """Send the number of runs that have ended."""
        del view
        yield CallWatcher(self._channel, None, 0)


class CallWatcher:
    """Sends how many runs have ended, and the share of the others that is trained.

    Attributes:
        number: The number of runs that have ended.
    """

    def __init__(self, channel: CallChannel, total: int | None, ended: int) -> None:
        """Send through a channel; `total` is the number of runs, if it is known; `ended` have ended."""
        self._channel = channel
        self._total = total
        self.number = ended
        self._sent_at = 0.0
        self._most = float(ended)

    def update(self, running: "Sequence[RunInFlight]", waiting: int) -> None:
        """Send the state of the active runs, but not more often than a client can read."""
        del waiting
        if time.monotonic() - self._sent_at >= PROGRESS_EVERY:
            self._send(running)

    def ended(self, record: "RunRecord", *, again: bool) -> None:
        """Count a run that has ended for good."""
        del record
        if not again:
            self.number += 1
            self._send(())

    def _send(self, running: "Sequence[RunInFlight]") -> None:
        self._sent_at = time.monotonic()
        trained = sum(run.step / max(run.spec.budget["steps"], 1) for run in running)
        # The protocol requires progress that grows; a repeated run begins again.
        self._most = max(self._most, self.number + trained)
        of_all = "" if self._total is None else f" of {self._total}"
        steps = "".join(
            f"; {run.spec.name} at step {run.step:,} of {run.spec.budget['steps']:,}"
            for run in running[:1]
        )
        self._channel.send(
            "progress",
            progress=self._most,
            total=self._total,
            message=f"{self.number}{of_all} runs ended{steps}",
        )


def main() -> None:
    """Wait for a request on standard input, and answer it on standard output."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    channel = _take_standard_output()
    _import_modules()
    line = sys.stdin.readline()
    if not line:
        return
    threading.Thread(target=_interrupt_at_end_of_input, daemon=True).start()
    _answer(json.loads(line), channel)
    # Imported libraries need no orderly end, and their threads could delay it.
    os._exit(0)


def _take_standard_output() -> CallChannel:
    """The channel to the server; what the user's code prints goes to standard error from now on."""
    stream = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return CallChannel(stream)


def _import_modules() -> None:
    from importlib import import_module

    gc.disable()
    for name in MODULES:
        import_module(name)
    gc.freeze()
    gc.enable()


def _interrupt_at_end_of_input() -> None:
    """Interrupt this process once when standard input ends, and kill it where it does not end."""
    with suppress(OSError, ValueError):
        sys.stdin.read()
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(GRACE)
    # The servers of executors end all runs when this process is gone.
    os.kill(os.getpid(), signal.SIGKILL)


def _answer(request: Mapping[str, Any], channel: CallChannel) -> None:
    """Perform a call and send its result or its error."""
    from rlexp.app.error_document import error_document, unwritable_folder
    from rlexp.app.results import document

    try:
        result = _perform(request, channel)
        channel.send("result", document=document(result), answer=answer(result), failed=False)
    # Whatever happens in the user's code, the client gets an answer.
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001
        reported = _expected_error(error) or unwritable_folder(error)
        if reported is None:
            traceback.print_exc()
            reported = RlexpError(
                f"rlexp failed unexpectedly: {type(error).__name__}: {error}; standard error of "
                "the server holds the traceback"
            )
        failure = error_document(reported)
        channel.send("result", document=document(failure), answer=failure.message, failed=True)


def _expected_error(error: BaseException) -> RlexpError | None:
    if isinstance(error, KeyboardInterrupt):
        return Interrupted("interrupted; the same call continues")
    return error if isinstance(error, RlexpError) else None


def _perform(request: Mapping[str, Any], channel: CallChannel) -> "Result":
    from rlexp.app.workspace import Workspace
    from rlexp.config.validate import validate_arguments

    tool = TOOLS[request["tool"]]
    given = validate_arguments(tool.arguments, request["arguments"])
    workspace = Workspace.here(tuple(request["allowed"]))
    return tool.perform(given, workspace, CallObserver(channel))


def answer(result: Any) -> str:
    """The answer of a result on one line."""
    return one_line(ANSWERS[result.schema.name](result))


def _card_text(card: Any, otherwise: str) -> str:
    """The answer of a card, what it rests on, and the facts that limit it."""
    if card is None:
        return otherwise
    facts = [f"{n}: {t}." for n, t in getattr(card, "facts", ()) if n in LIMITS]
    return " ".join([f"{card.text}.", *([card.basis] if card.basis else []), *facts])


def _listing(listing: Any) -> str:
    noun = str(listing.kind).removesuffix("s")
    rows = len(listing.rows)
    if not listing.total:
        return f"there is no {noun} yet: the tool run makes one"
    if not rows:
        return f"no {noun} of {listing.total} matches {' and '.join(listing.where)}"
    names = [getattr(row, noun if noun != "configuration" else "label") for row in listing.rows]
    return f"{format_count(rows, noun)}: {join_first_names(names, MOST_NAMED)}"


def _experiment(details: Any) -> str:
    return _card_text(details.card, f"{details.experiment} has no scores yet")


def _run_record(details: Any) -> str:
    score = "no score" if details.score is None else f"score {details.score:g}"
    reason = f": {details.reason}" if details.reason else ""
    return f"{details.experiment}/{details.run} is {details.state} at step {details.step:,}, {score}{reason}"


def _status(status: Any) -> str:
    if len(status.experiments) == 1:
        (only,) = status.experiments
        states = ", ".join(f"{n} {state}" for state, n in sorted(only.runs.items())) or "no runs"
        return f"{only.experiment} is {only.state}: {states}"
    numbers = Counter(experiment.state for experiment in status.experiments)
    counts = ", ".join(f"{n} {state}" for state, n in sorted(numbers.items()))
    return f"{format_count(len(status.experiments), 'experiment')}: {counts}"


def _plan(plan: Any) -> str:
    refused = format_count(len(plan.refused), "refused configuration")
    return (
        f"{plan.experiment}: {format_count(plan.runs, 'run')} would start, {plan.done} are done"
        f"{f', {refused}' if plan.refused else ''}"
    )


def _outcome(outcome: Any) -> str:
    name = outcome.summary.experiment
    if outcome.interrupted:
        return (
            f"{name}: interrupted by {outcome.interrupted}; the same call continues from the "
            "checkpoints"
        )
    prefix = "" if outcome.ran else "nothing to run, every requested run has ended. "
    return prefix + _card_text(outcome.card, f"{name} has no answer yet")


def _cancellation(cancelled: Any) -> str:
    name = cancelled.run or cancelled.experiment
    return f"{name}: {OUTCOMES[str(cancelled.outcome)]}"


def _comparison(comparison: Any) -> str:
    return _card_text(comparison.card, f"{comparison.title}: there are no scores to compare")


def _report(files: Any) -> str:
    verb = "already written" if files.unchanged else "wrote"
    names = join_first_names([str(path) for path in files.files], MOST_NAMED)
    return f"{_card_text(files.answer, 'no answer yet')} ({verb}: {names})"


def _settings(listing: Any) -> str:
    names = join_first_names([row.write for row in listing.rows], MOST_NAMED)
    return f"{format_count(len(listing.rows), 'setting')} about {listing.word}: {names}"


def _stream(stream: Any) -> str:
    row = stream.judged
    champion = f"the champion is {stream.champion_name}"
    left = f"alpha left: {stream.alpha_left:.3g} of {stream.alpha:.3g}"
    if stream.interrupted:
        return f"{stream.study}: interrupted by {stream.interrupted}; the same call continues"
    if row is None or row.decision is None:
        state = "takes candidates" if row is None else f"candidate {row.number} is not decided yet"
        return f"{stream.study} {state}; {champion}; {left}"
    decided = f"candidate {row.number} was {row.decision} with {row.n} tuning seeds: {row.reason}"
    return f"{stream.study}: {decided}; {champion}; {left}"


OUTCOMES: Mapping[str, str] = {
    "ending": "it was asked to stop; the same call of run continues",
    "withdrawn": "queued runs were withdrawn, and running ones were asked to stop",
    "queued": "it waits for a worker and stays queued, because an active command would queue it again",
    "idle": "nothing was running",
    "elsewhere": "a command on another machine runs it: cancel it there",
    "unidentified": "the process that runs it could not be identified",
    "ended": "it ended before it could be asked to stop",
}
"""What each outcome of a cancellation means."""
ANSWERS: Mapping[str, Callable[[Any], str]] = {
    "listing": _listing,
    "experiment-details": _experiment,
    "run-details": _run_record,
    "status": _status,
    "run-plan": _plan,
    "run-outcome": _outcome,
    "cancellation": _cancellation,
    "stream": _stream,
    "comparison": _comparison,
    "report-files": _report,
    "configuration-search": _settings,
}
"""The function that answers for each kind of document."""


if __name__ == "__main__":
    main()
