"""`rlexp worker`: executes runs that were left to workers; with `--json`, one object a line."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.exit_codes import exit_code
from rlexp.cli.options import Allow, Json, Quiet, console_for, here, observer_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlexp.app.commands.worker import WorkerOutcome
from collections.abc import Iterator
from contextlib import contextmanager

from rlexp.app.observer import Silent, Unwatched
from rlexp.console import Console
from rlexp.engine.running import Watcher
from rlexp.records.run import RunRecord


class JsonLines(Silent, Unwatched):
    """Writes remarks, failures and how runs end; everything else is left out."""

    def __init__(self, console: Console) -> None:
        """Write to standard output, by `console`."""
        self._console = console

    def note(self, text: str) -> None:
        """Write a remark."""
        self._console.json_line({"event": "note", "text": text})

    def error(self, text: str) -> None:
        """Write a failure."""
        self._console.json_line({"event": "error", "text": text})

    @contextmanager
    def watch(self, total: int) -> Iterator[Watcher]:
        """Write how runs end."""
        del total
        yield self

    def ended(self, record: RunRecord, *, again: bool) -> None:
        """Write how an attempt at a run ended."""
        self._console.json_line(
            {
                "event": "run_ended",
                "run": record.spec.name,
                "state": str(record.state),
                "score": record.score,
                "failure": None if record.failure is None else str(record.failure),
                "reason": record.reason,
                "again": again,
            }
        )


def worker(
    experiment: Annotated[str, typer.Argument(help="Whose runs to take")],
    words: Annotated[
        list[str] | None, typer.Argument(help="How they run here: executor.grace=60")
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Runs at a time; default: by cores")
    ] = None,
    idle: Annotated[
        float, typer.Option("--idle", min=0, help="Seconds to wait for further runs.")
    ] = 600.0,
    job: Annotated[
        Path | None, typer.Option("--job", help="A file with the runs to take, a line each")
    ] = None,
    while_input: Annotated[
        bool, typer.Option("--while-input", help="End when standard input ends.", hidden=True)
    ] = False,
    allow_import: Allow = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Take runs that executor=pull, or a cluster, left to workers, and execute them here."""
    from rlexp.app.commands.worker import WorkerOptions, work
    from rlexp.app.results import document

    options = WorkerOptions(job=job, workers=workers, idle=idle, while_input=while_input)
    console = console_for(as_json=as_json, quiet=quiet)
    observer = JsonLines(console) if as_json else observer_for(console)
    outcome = work(experiment, words or [], options, here(allow_import), observer)
    if as_json:
        console.json_line(document(outcome))
    else:
        for line in worker_lines(outcome):
            console.line(line)
    complete = not outcome.refused
    raise typer.Exit(exit_code(complete=complete, interrupted=outcome.interrupted))


def worker_lines(outcome: "WorkerOutcome") -> "Iterator[str]":
    """Why there was nothing to do, if there was nothing."""
    from rlexp.text import counted

    if outcome.executed or outcome.refused or outcome.interrupted:
        return
    if outcome.job is not None:
        yield f"nothing to do: the runs of {outcome.job.name} are over, or others are at them"
        return
    left = counted(outcome.ordered, "run")
    yield (
        f"nothing to take: {left} of {outcome.experiment} ordered; the command that made it "
        "orders more with executor=pull"
    )
