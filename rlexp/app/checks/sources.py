"""What makes an environment return other things for equal seeds and actions."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlexp.app.diagnostics.finding import Finding, fail, ok
from rlexp.app.diagnostics.repeated_runs import LOG_LIMIT, TICK
from rlexp.app.diagnostics.repeating import CURES, Trace
from rlexp.app.execution.environment_variables import given
from rlexp.executors import Job
from rlexp.executors.local import Local

ENTRY = "rlexp.app.diagnostics.repeating:execute"
PRELOAD = ("gymnasium", "rlexp.app.diagnostics.repeating")
HASH_SEED = "PYTHONHASHSEED"
PLAY_LIMIT = 60.0
"""Seconds after which a play is taken to hang."""
FIELDS = ("observations", "rewards", "terminated", "truncated")
HASHED = "the order of a set of strings, or a hash of one, decides"
SORT = "sort before you iterate over a set: for name in sorted(names)"


@dataclass(frozen=True, slots=True)
class _Source:
    """What an environment depends on that its seed does not decide, and what to do."""

    told: str
    fix: str


SOURCES = {
    "entropy": _Source(
        "it draws from a generator of its own that the system seeds",
        "draw all that is random from self.np_random, which reset(seed=…) seeds",
    ),
    "clock": _Source(
        "it reads the clock", "count steps instead: time is no part of what a seed decides"
    ),
    "both": _Source(
        "it reads the clock, and draws from a generator of its own that the system seeds",
        "count steps instead of time, and draw from self.np_random, which reset(seed=…) seeds",
    ),
}


def examine_environment(
    environment: Mapping[str, Any], allowed: Sequence[str], workspace: Path, folder: Path
) -> Finding:
    """Find out whether an environment repeats, and if not, what it depends on.

    Args:
        environment: Its configuration.
        allowed: Packages whose classes it may name.
        workspace: The workspace's folder.
        folder: A folder for notes.
    """
    request = {"environment": environment, "allowed": list(allowed)}
    (folder / "request.json").write_text(json.dumps(request))
    jobs = {f"own-{cure}": (cure, "1") for cure in CURES}
    _play(jobs, workspace, folder)
    _play({"again": ("nothing", "1")}, workspace, folder)
    _play({"hashed": ("nothing", "2")}, workspace, folder)
    traces = {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}
    return judge({name: pair for name, pair in traces.items() if name != "request"})


def judge(traces: Mapping[str, Sequence[Trace]]) -> Finding:
    """Say what an environment depends on.

    Args:
        traces: Two plays each: in one process with nothing changed and with each cure
            (`own-nothing`, `own-entropy`, …), in another process (`again`), and in one with
            another hash seed (`hashed`). Those that did not come to an end are missing.
    """
    if not {"own-nothing", "again", "hashed"} <= set(traces):
        return fail(
            "environment",
            "it cannot be played twice with equal seeds and actions",
            "rlexp doctor --environment … says where it breaks",
        )
    own = traces["own-nothing"]
    if place := difference(*own):
        return _within(place, traces)
    elsewhere = "between two processes, with equal seeds and actions"
    if place := difference(own[0], traces["again"][0]):
        return fail(
            "environment",
            f"{place} {elsewhere}: an address in memory, a process number or a file decides",
            "do not use id(), hash() of objects or os.getpid() for anything that is returned",
        )
    if place := difference(own[0], traces["hashed"][0]):
        return fail("environment", f"{place} {elsewhere}: {HASHED}", SORT)
    return ok("environment", f"repeats over {_steps(own[0])} steps with equal seeds and actions")


def difference(first: Trace, second: Trace) -> str | None:
    """Where two plays differ, or nothing."""
    steps = 0
    for one, other in zip(first, second, strict=False):
        where = f"step {steps}" if len(one) > 1 else f"the reset after {steps} steps"
        for name, a, b in zip(FIELDS, one, other, strict=False):
            if a != b:
                return f"{name} differ at {where}"
        steps += len(one) > 1
    return None


def _steps(trace: Trace) -> int:
    return sum(len(entry) > 1 for entry in trace)


def _within(place: str, traces: Mapping[str, Sequence[Trace]]) -> Finding:
    told = f"{place}, with equal seeds and actions"
    for cure, source in SOURCES.items():
        pair = traces.get(f"own-{cure}")
        if pair is not None and difference(*pair) is None:
            return fail("environment", f"{told}: {source.told}", source.fix)
    return fail(
        "environment",
        f"{told}: neither the clock nor the system's entropy explains it",
        "look for id() of objects, for what one environment leaves behind for the next, for threads "
        "and for files",
    )


def _play(jobs: Mapping[str, tuple[str, str]], workspace: Path, folder: Path) -> None:
    """Play in processes that share a hash seed; one that crashes leaves nothing behind."""
    executor = Local(workers=len(jobs), hang_timeout=PLAY_LIMIT, grace=1.0, log_limit=LOG_LIMIT)
    hash_seed = next(iter(jobs.values()))[1]
    with (
        given({HASH_SEED: hash_seed}),
        executor.open(ENTRY, PRELOAD, threads=1, folder=workspace) as session,
    ):
        for name, (cure, _) in jobs.items():
            words = (str(folder), cure, name)
            session.submit(Job(name, words, folder / f"{name}.txt"))
        left = set(jobs)
        for _ in range(int(PLAY_LIMIT / TICK)):
            left -= {ended.key for ended in session.poll(TICK)}
            if not left:
                break
