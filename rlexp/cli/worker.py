"""`rlexp worker`: executes runs that were left to workers; with `--json`, one object a line."""

import json
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlexp.cli.exit_codes import exit_code
from rlexp.cli.options import Allow, Json, Quiet, console_for, here, observer_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rlexp.app.commands.worker import WorkerOutcome
    from rlexp.app.plans import RunPlan, SweepOutline
    from rlexp.app.results import Result
    from rlexp.engine.running import Running
    from rlexp.engine.sweep_view import View
    from rlexp.records.run import RunRecord


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
    observer = JsonLines() if as_json else observer_for(console)
    outcome = work(experiment, words or [], options, here(allow_import), observer)
    if as_json:
        write_json_line(document(outcome))
    else:
        for line in worker_lines(outcome):
            console.line(line)
    complete = not outcome.refused
    raise typer.Exit(exit_code(complete=complete, interrupted=outcome.interrupted))


def worker_lines(outcome: "WorkerOutcome") -> "Iterator[str]":
    """Why there was nothing to do, if there was nothing."""
    from rlexp.reports.sentences import counted

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


def write_json_line(value: "Mapping[str, Any]") -> None:
    """Write an object as one line, at once: others read along."""
    print(json.dumps(value), flush=True)  # noqa: T201


class JsonLines:
    """An observer that writes one JSON object a line: ends of runs and remarks."""

    def note(self, text: str) -> None:
        """Write a remark."""
        write_json_line({"event": "note", "text": text})

    def error(self, text: str) -> None:
        """Write a failure."""
        write_json_line({"event": "error", "text": text})

    def plan(self, plan: "RunPlan") -> None:
        """Ignore a plan: a worker makes none."""

    def sweep_plan(self, plan: "SweepOutline") -> None:
        """Ignore the plan of a sweep: a worker makes none."""

    def finished(self, part: "Result") -> None:
        """Ignore one of several results: a worker has one."""

    @contextmanager
    def watch(self, total: int) -> "Iterator[JsonLines]":
        """Write how runs end."""
        del total
        yield self

    @contextmanager
    def watch_sweep(self, view: "View") -> "Iterator[JsonLines]":
        """Write how runs of a sweep end."""
        del view
        yield self

    def update(self, running: "Sequence[Running]", waiting: int) -> None:
        """Ignore what runs now."""

    def ended(self, record: "RunRecord", *, again: bool) -> None:
        """Write how an attempt at a run ended."""
        write_json_line(
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
