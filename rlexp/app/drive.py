"""Executes what is missing of an experiment, whichever command asks for it."""

import os
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from rlexp.app.continuing import continuing, largest_replay, plain_beginnings, steps_done
from rlexp.app.estimate import estimate, remember
from rlexp.app.fit import Spaces
from rlexp.app.mirrored import Trackers, mirroring
from rlexp.app.signals import listening
from rlexp.app.study import Study
from rlexp.app.summary import Entry
from rlexp.console import Console
from rlexp.engine.loop import Loop, Orders, Watcher
from rlexp.engine.plan import Plan
from rlexp.engine.source import Listed, Source
from rlexp.executors import Executor
from rlexp.protocol.seeds import Phase
from rlexp.store.file_systems import network_file_system
from rlexp.store.layout import ExperimentPaths
from rlexp.store.provenance import Code, collect, read_code
from rlexp.store.runs import folder_size

ENTRY = "rlexp.app.worker:execute"
PRELOAD = (
    *("!tensorboard", "torch", "stable_baselines3", "sb3_contrib", "torch._dynamo"),
    "rlexp.app.worker",
)
"""What every run needs; `torch._dynamo` is pulled in by the first model.

stable-baselines3 would import TensorBoard where it is installed, for half a second, and for nothing.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Driving:
    """How runs are executed.

    Attributes:
        executor: What executes them.
        threads: Of each run.
        operational: Of a budget, and what else an attempt is asked for.
        command: What the user typed.
        with_drift: The command that continues from checkpoints of other versions, too.
        trackers: What the records are mirrored to.
    """

    executor: Executor
    threads: int
    operational: Mapping[str, Any]
    command: tuple[str, ...]
    with_drift: str | None = None
    trackers: Trackers = field(default_factory=Trackers)

    @property
    def allow_drift(self) -> bool:
        """Whether checkpoints of other versions are continued from."""
        return bool(self.operational.get("allow_drift"))


def drive(
    paths: ExperimentPaths,
    phase: Phase,
    plan: Plan,
    driving: Driving,
    study: Study,
    console: Console,
    spaces: Mapping[str, Spaces] | None = None,
) -> int | None:
    """Run what is missing; returns the code of the signal that ended it, if one did.

    `spaces` are those of the environments, where they are known.
    """
    return drive_source(
        paths,
        Listed(deque(plan.missing)),
        driving,
        study,
        console,
        show=lambda code: show_plan(paths, phase, plan, driving, code, console, spaces),
        watch=lambda: console.watch(len(plan.missing)),
    )


def drive_source(
    paths: ExperimentPaths,
    source: Source,
    driving: Driving,
    study: Study,
    console: Console,
    *,
    show: Callable[[Code], None],
    watch: Callable[[], AbstractContextManager[Watcher]],
) -> int | None:
    """Run what a source gives out; returns the code of the signal that ended it, if one did.

    Args:
        paths: The experiment, whose lock is held.
        source: Where the runs come from.
        driving: How they are executed.
        study: Where the code is.
        console: Told of a full disk.
        show: Shows the plan, while the executor starts.
        watch: Opens what is told of every run.
    """
    code = read_code(study.folder, study.layout.root)
    if kind := network_file_system(paths.folder):
        console.note(
            f"Warning: {paths.folder} is on a network file system ({kind}): "
            "give commands on one experiment from one machine, whose locks others may not see"
        )
    with (
        # Outermost: in the end, Ctrl-C ends the wait for services.
        mirroring(paths, driving.trackers, driving.command, study, console),
        listening() as signals,
    ):
        opened = driving.executor.open(
            ENTRY, PRELOAD, threads=driving.threads, folder=study.folder
        )
        loop = None
        try:
            with opened as session:
                show(code)
                with watch() as watcher:
                    loop = Loop(
                        experiment=paths,
                        executor=driving.executor,
                        session=session,
                        orders=_orders(driving, code, study),
                        watcher=watcher,
                        asked_to_stop=signals.asked_to_stop,
                        monotonic=time.monotonic,
                        now=time.time,
                    )
                    loop.close_gap(source)
        except KeyboardInterrupt:
            signals.code = signals.code or 130
        if loop is not None:
            loop.abandon()
            if loop.disk_error is not None:
                remedy = "free space, or make the disk writable"
                console.error(f"{loop.disk_error}; {remedy}, then give the same command again")
        return signals.code


def show_plan(
    paths: ExperimentPaths,
    phase: Phase,
    plan: Plan,
    driving: Driving,
    code: Code,
    console: Console,
    spaces: Mapping[str, Spaces] | None = None,
) -> None:
    """Say how much there is to run, on how many workers, and what it will take."""
    threads = driving.threads
    workers = min(driving.executor.workers_for(threads), max(len(plan.missing), 1))
    found = continuing(paths, plan.missing, allow_drift=driving.allow_drift)
    replay = largest_replay(plan.missing, spaces or {})
    expected = estimate(plan.missing, workers, continued=steps_done(found), replay=replay)
    console.plan(
        {
            "experiment": paths.name,
            "phase": str(phase),
            "runs": len(plan.missing),
            "done": len(plan.done),
            "failed": len(plan.failed),
            "steps": plan.steps,
            "steps_per_run": sorted({spec.budget["steps"] for spec in plan.missing}),
            **plain_beginnings(found, driving.with_drift),
            "replay_bytes": replay,
            "workers": workers,
            "threads": threads,
            "seconds": round(expected.seconds, 1),
            "bytes": expected.bytes,
            "measured": expected.measured,
            "code": str(code),
        },
    )


def remember_speeds(entries: Sequence[Entry], plan: Plan) -> None:
    """Keep how long the runs took and how much they filled, for later estimates."""
    ran = {spec.id for spec in plan.missing}
    remember(
        [
            (stored.record, folder_size(stored.paths.folder))
            for _, stored in entries
            if stored.record.spec.id in ran
        ],
    )


def _orders(driving: Driving, code: Code, study: Study) -> Orders:
    return Orders(
        settings={**driving.operational, "allowed": list(study.allowed)},
        provenance=collect(code, driving.command, study.folder, os.environ),
        patch=code.patch,
        timeout=driving.operational["timeout"],
    )
