"""`rlexp run`: brings the records of an experiment to what was asked for."""

import os
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rlexp.app.estimate import estimate, remember
from rlexp.app.fit import check_fit
from rlexp.app.request import Request, read_request
from rlexp.app.signals import listening
from rlexp.app.study import Study
from rlexp.app.summary import Entry, read_entries, summarise
from rlexp.console import Console
from rlexp.engine.loop import Loop, Orders
from rlexp.engine.plan import Plan, make_plan
from rlexp.errors import RecordError
from rlexp.protocol.difference import leaf_differences
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.seeds import Phase, SeedPlan, Seeds
from rlexp.records.run import RunRecord, State
from rlexp.store.files import probe_writable
from rlexp.store.layout import ExperimentPaths
from rlexp.store.lease import hold
from rlexp.store.provenance import Code, collect, read_code
from rlexp.store.runs import folder_size, read_experiment, write_experiment, write_run

ENTRY = "rlexp.app.worker:execute"
PRELOAD = ("torch", "stable_baselines3", "sb3_contrib", "torch._dynamo", "rlexp.app.worker")
"""What every run needs; `torch._dynamo` is pulled in by the first model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a command was told besides the configuration."""

    dry_run: bool = False
    retry: bool = False


def run(overrides: Sequence[str], options: Options, study: Study, console: Console) -> int:
    """Run what is missing and show where the experiment stands; returns the exit code.

    Raises:
        RlexpError: Something is wrong with what was asked; nothing was started.
    """
    request = read_request(overrides, study)
    paths = study.layout.experiment(request.experiment.name)
    if not options.dry_run:
        probe_writable(paths.folder if paths.folder.exists() else study.layout.root)
    experiment = _joined(paths, request.experiment)
    entries = read_entries(paths, experiment, request.phase)
    plan = _plan(entries, request, options)
    stopped = None
    if plan.missing or options.dry_run:
        check_fit(request.experiment.configurations, study)
    if options.dry_run:
        _show_plan(plan, request, read_code(study.folder), console)
        return 0
    if plan.missing:
        with hold(paths.lock, f"experiment {paths.name}", now=time.time()):
            # Another command may have driven it while this one was reading.
            experiment = _joined(paths, request.experiment)
            plan = _plan(read_entries(paths, experiment, request.phase), request, options)
            write_experiment(paths, experiment)
            stopped = _execute(paths, request, plan, overrides, study, console)
            entries = read_entries(paths, experiment, request.phase)
            _remember(entries, plan)
    return _report(paths, experiment, request, entries, plan, overrides, stopped, console)


def _report(
    paths: ExperimentPaths,
    experiment: Experiment,
    request: Request,
    entries: Sequence[Entry],
    plan: Plan,
    overrides: Sequence[str],
    stopped: int | None,
    console: Console,
) -> int:
    summary = summarise(paths, experiment, request.phase, entries)
    asked = {spec.id for _, spec in request.experiment.specs(request.phase)}
    records = [s.record for _, s in entries if s.record.spec.id in asked]
    summary["ran"] = len(plan.missing)
    summary["next"] = _next(records, overrides, request)
    console.summary(summary)
    if stopped is not None:
        return stopped
    return int(any(r.state is not State.COMPLETED for r in records))


def _plan(entries: Sequence[Entry], request: Request, options: Options) -> Plan:
    records = {stored.record.spec.id: stored.record for _, stored in entries}
    specs = [spec for _, spec in request.experiment.specs(request.phase)]
    return make_plan(specs, records, retry=options.retry)


def _remember(entries: Sequence[Entry], plan: Plan) -> None:
    ran = {spec.id for spec in plan.missing}
    remember(
        [
            (stored.record, folder_size(stored.paths.folder))
            for _, stored in entries
            if stored.record.spec.id in ran
        ],
    )


def _show_plan(plan: Plan, request: Request, code: Code, console: Console) -> None:
    threads = request.threads
    workers = min(request.executor.workers_for(threads), max(len(plan.missing), 1))
    expected = estimate(plan.missing, workers)
    console.plan(
        {
            "experiment": request.experiment.name,
            "phase": str(request.phase),
            "runs": len(plan.missing),
            "done": len(plan.done),
            "failed": len(plan.failed),
            "steps": plan.steps,
            "steps_per_run": sorted({spec.budget["steps"] for spec in plan.missing}),
            "workers": workers,
            "threads": threads,
            "seconds": round(expected.seconds, 1),
            "bytes": expected.bytes,
            "measured": expected.measured,
            "code": str(code),
        },
    )


def _execute(
    paths: ExperimentPaths,
    request: Request,
    plan: Plan,
    overrides: Sequence[str],
    study: Study,
    console: Console,
) -> int | None:
    """Run what is missing; returns the code of the signal that ended it, if one did."""
    code = read_code(study.folder)
    threads = request.threads
    command = ["rlexp", "run", *overrides]
    orders = Orders(
        settings={
            "checkpoint_every": request.budget.checkpoint_every,
            "timeout": request.budget.timeout,
            "allowed": list(study.allowed),
        },
        provenance=collect(code, command, study.folder, os.environ),
        patch=code.patch,
        timeout=request.budget.timeout,
    )
    with listening() as signals:
        opened = request.executor.open(ENTRY, PRELOAD, threads=threads, folder=study.folder)
        loop = None
        try:
            with opened as session:
                _show_plan(plan, request, code, console)
                for spec in plan.missing:
                    write_run(paths.run(spec.name), spec)
                with console.watch(len(plan.missing)) as watcher:
                    loop = Loop(
                        experiment=paths,
                        executor=request.executor,
                        session=session,
                        orders=orders,
                        watcher=watcher,
                        asked_to_stop=signals.asked_to_stop,
                        monotonic=time.monotonic,
                        now=time.time,
                    )
                    loop.close_gap(plan.missing)
        except KeyboardInterrupt:
            signals.code = signals.code or 130
        if loop is not None:
            loop.abandon()
            if loop.disk_error is not None:
                console.error(f"{loop.disk_error}; free space, then give the same command again")
        return signals.code


def _next(
    records: Sequence[RunRecord],
    overrides: Sequence[str],
    request: Request,
) -> list[dict[str, str]]:
    """The commands that make sense now, each with what it is for."""
    again = ["rlexp", "run", *overrides]
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
    seeds = f"seeds.{request.phase}"
    kept = [word for word in again if not word.startswith(f"{seeds}=")]
    more = 2 * len(request.experiment.seeds.seeds(request.phase))
    if isinstance(getattr(request.experiment.seeds, request.phase), int):
        steps.append({"why": "add seeds", "command": shlex.join([*kept, f"{seeds}={more}"])})
    return steps


def _joined(paths: ExperimentPaths, asked: Experiment) -> Experiment:
    """The experiment as it stands, with the seeds that are asked for now.

    Raises:
        RecordError: The name stands for another question; shows what differs.
    """
    if not paths.definition.exists():
        return asked
    there = read_experiment(paths)
    if there.fingerprint != asked.fingerprint:
        found = leaf_differences(
            there.definition(), asked.definition(), ignored=frozenset({"fingerprint"})
        )
        differences = "\n".join(f"  {d.path}: {d.first!r} there, {d.second!r} here" for d in found)
        raise RecordError(
            f"experiment {asked.name} exists with another definition; "
            f"choose another name with experiment=…\n{differences}",
        )
    seeds = SeedPlan(
        root=there.seeds.root,
        **{p: _union(getattr(there.seeds, p), getattr(asked.seeds, p)) for p in Phase},
    )
    return replace(there, seeds=seeds)


def _union(first: Seeds, second: Seeds) -> Seeds:
    if isinstance(first, int) and isinstance(second, int):
        return max(first, second)
    both = [tuple(range(s)) if isinstance(s, int) else s for s in (first, second)]
    return tuple(dict.fromkeys((*both[0], *both[1])))
