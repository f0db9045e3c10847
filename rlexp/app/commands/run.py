"""`rlexp run`: brings the records of an experiment to what was asked for."""

import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rlexp.app.continuing import with_drift
from rlexp.app.drive import drive, remember_speeds, show_plan
from rlexp.app.execution import Driving
from rlexp.app.fit import Spaces, check_fit
from rlexp.app.join import join
from rlexp.app.leading import leading_aggregate
from rlexp.app.mirrored import catch_up
from rlexp.app.request import Request, read_request
from rlexp.app.retrain import Origin, request_again
from rlexp.app.summary import Entry, read_entries, summarise
from rlexp.app.workspace import Workspace
from rlexp.console import Console
from rlexp.engine.plan import Plan, make_plan
from rlexp.errors import ConfigError
from rlexp.executors import Remote
from rlexp.records.run import RunRecord, State
from rlexp.store.files import probe_writable
from rlexp.store.lease import hold
from rlexp.store.provenance import read_code
from rlexp.store.runs import write_experiment
from rlexp.store.sealing import seal_unsealed


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a command was told besides the configuration."""

    dry_run: bool = False
    retry: bool = False
    allow_drift: bool = False
    detach: bool = False
    origin: Origin | None = None

    def command(self, words: Sequence[str]) -> tuple[str, ...]:
        """What the user typed, but for what is no part of the question."""
        if self.origin is None:
            return ("rlexp", "run", *words)
        return self.origin.command(words)


def run(overrides: Sequence[str], options: Options, workspace: Workspace, console: Console) -> int:
    """Run what is missing and show where the experiment stands; returns the exit code.

    Raises:
        RlexpError: Something is wrong with what was asked; nothing was started.
    """
    origin = options.origin
    request = (
        request_again(origin, overrides, workspace)
        if origin
        else read_request(overrides, workspace)
    )
    return bring_to_end(request, options.command(overrides), options, workspace, console)


def bring_to_end(
    request: Request,
    command: tuple[str, ...],
    options: Options,
    workspace: Workspace,
    console: Console,
) -> int:
    """Run what is missing of a request, and show where its experiment stands.

    Args:
        request: What is asked for.
        command: What the user typed.
        options: What the command was told besides.
        workspace: Where it is.
        console: Shows the plan, the runs and the summary.

    Returns:
        The exit code.

    Raises:
        RlexpError: Something is wrong with what was asked; nothing was started.
    """
    paths = workspace.layout.experiment(request.experiment.name)
    if not options.dry_run:
        probe_writable(paths.folder if paths.folder.exists() else workspace.layout.root)
    leading = leading_aggregate(workspace.folder, workspace.allowed)
    experiment = join(paths, request.experiment)
    entries = read_entries(paths, experiment, request.phase)
    plan = _plan(entries, request, options)
    stopped, spaces = None, dict[str, Spaces]()
    if plan.missing or options.dry_run:
        check_fit(request.experiment.configurations, workspace, spaces)
    driving = Driving(
        executor=request.executor,
        threads=request.threads,
        operational={**request.budget.operational(), "allow_drift": options.allow_drift},
        command=command,
        with_drift=with_drift(command, workspace, *(["--retry"] if options.retry else [])),
        trackers=request.trackers,
        detach=options.detach,
    )
    if options.detach and not isinstance(request.executor, Remote):
        raise ConfigError(
            "--detach leaves runs to a cluster or to workers: choose executor=slurm or "
            "executor=pull; what runs on this machine ends with its command"
        )
    if options.dry_run:
        code = read_code(workspace.folder, workspace.layout.root)
        show_plan(paths, request.phase, plan, driving, code, console, spaces)
        return 0
    if plan.missing:
        with hold(paths.lock, f"experiment {paths.name}", now=time.time()):
            # Another command may have driven it while this one was reading.
            experiment = join(paths, request.experiment)
            plan = _plan(read_entries(paths, experiment, request.phase), request, options)
            write_experiment(paths, experiment)
            stopped = drive(paths, request.phase, plan, driving, workspace, console, spaces)
            entries = read_entries(paths, experiment, request.phase)
            remember_speeds(entries, plan)
    else:
        counted = {run.record.spec.name: run.record.attempts for _, run in entries}
        seal_unsealed(paths, now=time.time(), counted=counted)
        catch_up(paths, request.trackers, command, workspace, console)
    if options.detach and plan.missing and stopped is None:
        return 0
    permission = [] if "--allow-import" in command else workspace.permission
    again = [*command, *permission]
    told = summarise(paths, experiment, request.phase, entries, leading)
    return _report(told, request, entries, plan, again, stopped, console)


def _report(
    summary: dict[str, Any],
    request: Request,
    entries: Sequence[Entry],
    plan: Plan,
    command: Sequence[str],
    stopped: int | None,
    console: Console,
) -> int:
    asked = {spec.id for spec in request.specs()}
    records = [s.record for _, s in entries if s.record.spec.id in asked]
    summary["ran"] = len(plan.missing)
    summary["next"] = _next(records, command, request)
    console.summary(summary)
    if stopped is not None:
        return stopped
    return int(any(r.state is not State.COMPLETED for r in records))


def _plan(entries: Sequence[Entry], request: Request, options: Options) -> Plan:
    records = {stored.record.spec.id: stored.record for _, stored in entries}
    return make_plan(request.specs(), records, retry=options.retry)


def _next(
    records: Sequence[RunRecord],
    again: Sequence[str],
    request: Request,
) -> list[dict[str, str]]:
    """The commands that make sense now, each with what it is for."""
    name = request.experiment.name
    failed = [r for r in records if r.state is State.FAILED]
    if any(r.state not in {State.COMPLETED, State.FAILED, State.PRUNED} for r in records):
        return [{"why": "continue", "command": shlex.join(again)}]
    steps = []
    if failed:
        run_name = f"{name}/{failed[0].spec.name}"
        steps.append(
            {"why": "see why it failed", "command": shlex.join(["rlexp", "logs", run_name])}
        )
        steps.append(
            {"why": "try the failed runs again", "command": shlex.join([*again, "--retry"])}
        )
        return steps
    steps.append({"why": "see every run", "command": shlex.join(["rlexp", "show", name])})
    if len({c.label for c in request.experiment.configurations}) > 1:
        steps.append({"why": "compare", "command": shlex.join(["rlexp", "compare", name])})
    steps.append({"why": "write the report", "command": shlex.join(["rlexp", "report", name])})
    seeds = f"seeds.{request.phase}"
    kept = [word for word in again if not word.startswith(f"{seeds}=")]
    more = 2 * len(request.experiment.seeds.seeds(request.phase))
    if again[1] == "run" and isinstance(getattr(request.experiment.seeds, request.phase), int):
        steps.append({"why": "add seeds", "command": shlex.join([*kept, f"{seeds}={more}"])})
    return steps
