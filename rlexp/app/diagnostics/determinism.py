"""Checks whether a configuration trains to the same numbers each time, and finds the cause if not.

`check_determinism` is the entry: it trains three times with equal seeds, once under another hash
seed. If the trainings differ, it plays the environment with the clock or the system's entropy
replaced by repeatable ones, to see which of them the environment depends on.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rlexp.app.diagnostics.finding import Finding, FindingStatus, fail, ok
from rlexp.app.diagnostics.repeated_runs import (
    LOG_LIMIT,
    TICK,
    RepeatedRun,
    RepetitionSettings,
    execute_separately,
)
from rlexp.app.diagnostics.repeating import CURES, Trace
from rlexp.app.diagnostics.short_training import small_budget
from rlexp.app.execution.checks.import_permission import check_imports
from rlexp.app.execution.environment_variables import temporary_environment
from rlexp.app.execution.prior_data import prior_source
from rlexp.app.execution.request import read_request
from rlexp.app.workspace import Workspace
from rlexp.config.overrides import parse_overrides
from rlexp.errors import ConfigError
from rlexp.executors import Job
from rlexp.executors.local import Local
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.identity import short_name
from rlexp.protocol.shared_experience import EXPERIENCE
from rlexp.protocol.spec import RunSpec
from rlexp.records.divergence import Likeness, first_divergence, likeness
from rlexp.records.events import Failure
from rlexp.records.run import RunRecord, State
from rlexp.store.checkpoints.policies import START_FROM
from rlexp.store.provenance import usable_cores
from rlexp.store.runs import read_spec
from rlexp.text import join_names

ENTRY = "rlexp.app.diagnostics.repeating:execute"
PRELOAD = ("gymnasium", "rlexp.app.diagnostics.repeating")
HASH_SEED = "PYTHONHASHSEED"
PLAY_LIMIT = 60.0
"""Seconds after which a play counts as hung."""
FIELDS = ("observations", "rewards", "terminated", "truncated")
HASH_CAUSE = "it depends on the order of a set of strings, or on the hash of a string"
SORT_ADVICE = "sort a set before you iterate over it: for name in sorted(names)"


def check_determinism(words: list[str], workspace: Workspace) -> list[Finding]:
    """Train a configuration several times with the same seeds, and compare the results.

    Args:
        words: A configuration as `rlexp run` accepts it, or the name of a run.
        workspace: The workspace, which holds the configuration and its code.

    Raises:
        RlexpError: The words do not select exactly one configuration.
    """
    target = read_target(words, workspace)
    with TemporaryDirectory(prefix="rlexp-doctor-") as temporary:
        settings = RepetitionSettings(
            folder=Path(temporary),
            workspace=workspace.folder,
            allowed=workspace.allowed,
            timeout=target.timeout,
        )
        return list(_findings(target, settings))


@dataclass(frozen=True, slots=True)
class _NondeterminismSource:
    """A cause of differences that the seed does not control, and its remedy."""

    message: str
    fix: str


SOURCES = {
    "entropy": _NondeterminismSource(
        "it draws from a separate generator that the system seeds",
        "draw all random numbers from self.np_random, which reset(seed=…) seeds",
    ),
    "clock": _NondeterminismSource(
        "it reads the clock", "count steps instead of time, which no seed controls"
    ),
    "both": _NondeterminismSource(
        "it reads the clock, and draws from a separate generator that the system seeds",
        "count steps instead of time, and draw from self.np_random, which reset(seed=…) seeds",
    ),
}


def check_environment_repeats(
    environment: Mapping[str, Any], allowed: Sequence[str], workspace: Path, folder: Path
) -> Finding:
    """Check whether an environment repeats, and find the cause if it does not.

    Args:
        environment: The environment's configuration.
        allowed: Packages whose classes the configuration may name.
        workspace: The workspace's folder.
        folder: A folder for the traces.
    """
    request = {"environment": environment, "allowed": list(allowed)}
    (folder / "request.json").write_text(json.dumps(request))
    # The plays of one call share a server process and so its hash seed, which is set at its start.
    jobs = {f"own-{cure}": (cure, "1") for cure in CURES}
    _play(jobs, workspace, folder)
    _play({"again": ("nothing", "1")}, workspace, folder)
    _play({"hashed": ("nothing", "2")}, workspace, folder)
    traces = {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}
    return explain_traces({name: pair for name, pair in traces.items() if name != "request"})


def explain_traces(traces: Mapping[str, Sequence[Trace]]) -> Finding:
    """Explain whether and why an environment does not repeat.

    Args:
        traces: Pairs of plays by name: in one process with nothing replaced and with each
            replacement (`own-nothing`, `own-entropy`, …), in another process (`again`), and in one
            with another hash seed (`hashed`). Plays that did not end are missing.
    """
    # Plays with a replaced source may fail for other reasons, so they are not needed here.
    if not {"own-nothing", "again", "hashed"} <= set(traces):
        return fail(
            "environment",
            "it cannot be played twice with equal seeds and actions",
            "for details: rlexp doctor --environment …",
        )
    same_process = traces["own-nothing"]
    if location := first_difference(*same_process):
        return _within(location, traces)
    elsewhere = "between two processes, with equal seeds and actions"
    if location := first_difference(same_process[0], traces["again"][0]):
        return fail(
            "environment",
            f"{location} {elsewhere}: it depends on a memory address, a process number or a file",
            "do not compute returned values from id(), hash() of objects or os.getpid()",
        )
    if location := first_difference(same_process[0], traces["hashed"][0]):
        return fail("environment", f"{location} {elsewhere}: {HASH_CAUSE}", SORT_ADVICE)
    return ok(
        "environment", f"repeats over {_steps(same_process[0])} steps with equal seeds and actions"
    )


def first_difference(first: Trace, second: Trace) -> str | None:
    """The first difference between two plays as text, or None."""
    steps = 0
    for first_entry, second_entry in zip(first, second, strict=False):
        where = f"step {steps}" if len(first_entry) > 1 else f"the reset after {steps} steps"
        for name, first_digest, second_digest in zip(
            FIELDS, first_entry, second_entry, strict=False
        ):
            if first_digest != second_digest:
                return f"{name} differ at {where}"
        steps += len(first_entry) > 1
    return None


def _steps(trace: Trace) -> int:
    return sum(len(entry) > 1 for entry in trace)


def _within(location: str, traces: Mapping[str, Sequence[Trace]]) -> Finding:
    message = f"{location}, with equal seeds and actions"
    for cure, source in SOURCES.items():
        pair = traces.get(f"own-{cure}")
        if pair is not None and first_difference(*pair) is None:
            return fail("environment", f"{message}: {source.message}", source.fix)
    return fail(
        "environment",
        f"{message}: neither the clock nor the system's entropy explains it",
        "look for id() of objects, for state that one environment leaves for the next, for threads "
        "and for files",
    )


def _play(jobs: Mapping[str, tuple[str, str]], workspace: Path, folder: Path) -> None:
    """Play in separate processes with one hash seed; a process that crashes leaves no trace."""
    executor = Local(workers=len(jobs), hang_timeout=PLAY_LIMIT, grace=1.0, log_limit=LOG_LIMIT)
    hash_seed = next(iter(jobs.values()))[1]
    with (
        temporary_environment({HASH_SEED: hash_seed}),
        executor.open(ENTRY, PRELOAD, threads=1, folder=workspace) as session,
    ):
        for name, (cure, _) in jobs.items():
            arguments = (str(folder), cure, name)
            session.submit(Job(name, arguments, folder / f"{name}.txt"))
        unfinished = set(jobs)
        for _ in range(int(PLAY_LIMIT / TICK)):
            unfinished -= {ended.key for ended in session.poll(TICK)}
            if not unfinished:
                break


TIMEOUT = 60.0
"""Seconds that one training may take, unless `budget.timeout` is given."""
LONGEST_LIST = 3
SETTINGS = ("steps", "timeout")
"""Budget keys that may be overridden for a recorded run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeterminismTarget:
    """The run that is trained several times, its time limit, and the command's overrides."""

    spec: RunSpec
    timeout: float
    words: tuple[str, ...]


def read_target(words: Sequence[str], workspace: Workspace) -> DeterminismTarget:
    """Parse a configuration as `rlexp run` accepts it, or a run's name with budget overrides.

    Raises:
        RlexpError: They do not select exactly one configuration or run, or would import packages
            that are not allowed.
    """
    is_run_name = bool(words) and "=" not in words[0] and words[0][:1] not in "~+"
    budget_overrides = _budget_overrides(words[1:] if is_run_name else words)
    spec = (
        _of_run(words, budget_overrides, workspace)
        if is_run_name
        else _of_overrides(words, workspace)
    )
    _refuse_foreign_beginning(spec)
    timeout = budget_overrides.get("timeout")
    return DeterminismTarget(
        spec=replace(spec, budget=small_budget(spec, budget_overrides)),
        timeout=TIMEOUT if timeout is None else float(timeout),
        words=tuple(words),
    )


def _budget_overrides(overrides: Sequence[str]) -> dict[str, Any]:
    """The overridden fields of the budget, by name."""
    parsed = {override.key_or_group: override for override in parse_overrides(overrides)}
    return {
        key.removeprefix("budget."): override.value()
        for key, override in parsed.items()
        if key.startswith("budget.")
    }


def _of_run(
    arguments: Sequence[str], budget_overrides: Mapping[str, Any], workspace: Workspace
) -> RunSpec:
    name, *others = arguments
    if len(others) != len(budget_overrides) or not set(budget_overrides) <= set(SETTINGS):
        allowed = ", ".join(f"budget.{setting}=…" for setting in SETTINGS)
        raise ConfigError(f"together with the name of a run, only {allowed} can be given")
    for key, value in budget_overrides.items():
        if not isinstance(value, int | float) or value <= 0:
            raise ConfigError(f"budget.{key}={value!r} must be a number greater than 0")
    spec = read_spec(workspace.run(name))
    _refuse_script(spec)
    command = ["rlexp", "doctor", "--determinism", *arguments, *workspace.permission]
    check_imports([spec], workspace.allowed, command)
    return spec


def _of_overrides(overrides: Sequence[str], workspace: Workspace) -> RunSpec:
    request = read_request(overrides, workspace)
    specs = [spec for _, spec in request.experiment.specs(request.phase)]
    if len(request.experiment.configurations) != 1:
        raise ConfigError(_several(request.experiment.configurations))
    _refuse_script(specs[0])
    return specs[0]


def _several(configurations: Sequence[Configuration]) -> str:
    names = [
        f"{configuration.label} on {configuration.task}"
        for configuration in configurations[:LONGEST_LIST]
    ]
    more = ["…"] if len(configurations) > LONGEST_LIST else []
    return (
        f"one configuration at a time is checked, and the overrides select {len(configurations)} "
        f"({', '.join([*names, *more])}): choose a single one with "
        "overrides such as algorithm=ppo environment=cartpole"
    )


def _refuse_script(spec: RunSpec) -> None:
    if spec.external:
        raise ConfigError(
            "a training script leaves no weights to compare: use 'rlexp run', then compare with "
            "'rlexp reproduce'"
        )


def _refuse_foreign_beginning(spec: RunSpec) -> None:
    """Refuse a run that needs files of its experiment, which separate trainings do not have.

    Raises:
        ConfigError: The run needs a policy or transitions of other runs.
    """
    needed = {
        f"algorithm.{START_FROM}": spec.algorithm.get(START_FROM),
        f"algorithm.{EXPERIENCE}": spec.algorithm.get(EXPERIENCE),
        "replay=prior_data": prior_source(spec.replay),
    }
    if overrides := [word for word, value in needed.items() if value is not None]:
        raise ConfigError(
            "a check of determinism keeps nothing that other runs have made: leave out "
            f"{join_names(overrides)}",
            key=overrides[0].partition("=")[0],
        )


FIRST, OTHER = {HASH_SEED: "1"}, {HASH_SEED: "2"}
"""Hashes of strings are equal in the first two executions and differ in the third."""
SLOWER, SLACK = 3.0, 5.0
"""How much longer a training may take with other threads: a factor, and seconds on top."""
WORKSPACE = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
"""Setting of cuBLAS that torch's deterministic algorithms need on graphics processors."""


def _findings(target: DeterminismTarget, settings: RepetitionSettings) -> Iterator[Finding]:
    spec = target.spec
    executions = [
        RepeatedRun(name="first", spec=spec, variables=FIRST),
        RepeatedRun(name="second", spec=spec, variables=FIRST),
        RepeatedRun(name="hashed", spec=spec, variables=OTHER),
    ]
    first, second, hashed = execute_separately(executions, settings)
    if unfinished := next(
        (r for r in (first, second, hashed) if r.state is not State.COMPLETED), None
    ):
        yield _unfinished(unfinished, target)
        return
    yield _trainings(first, second)
    repeats = likeness(first, second) is Likeness.IDENTICAL
    if repeats:
        yield _hashing(first, hashed)
        yield from _threads(first, settings)
    if not repeats or likeness(first, hashed) is not Likeness.IDENTICAL:
        environment_finding = _environment(spec, settings)
        yield environment_finding
        # Only if the environment repeats, the difference must come from the learner.
        if environment_finding.status is FindingStatus.OK and not repeats:
            yield _learner(spec, settings)


def _unfinished(record: RunRecord, target: DeterminismTarget) -> Finding:
    if record.failure is Failure.TIMEOUT:
        return fail(
            "trainings",
            f"{record.spec.budget['steps']:,} steps took more than {target.timeout:g} s, after "
            f"{record.step:,} of them",
            f"allow more time with budget.timeout={10 * target.timeout:g}, or use fewer "
            "steps with budget.steps=…",
        )
    kind = f" ({record.failure})" if record.failure else ""
    reason = f": {record.reason}" if record.reason else ""
    return fail(
        "trainings",
        f"one ended as {record.state}{kind}{reason}",
        "fix the training, then check again",
    )


def _trainings(first: RunRecord, second: RunRecord) -> Finding:
    name = short_name(first.spec.algorithm)
    steps = f"{first.step:,} steps of {name} on {first.spec.environment.get('id', 'its task')}"
    if likeness(first, second) is Likeness.IDENTICAL:
        return ok(
            "trainings",
            f"{steps}, twice, in separate processes: equal weights "
            f"({str(first.weights)[:12]}) and evaluations",
        )
    return fail(
        "trainings",
        f"{steps}, twice with equal seeds: {_divergence(first, second)}",
        "see the findings below for the cause",
    )


def _hashing(first: RunRecord, hashed: RunRecord) -> Finding:
    if likeness(first, hashed) is Likeness.IDENTICAL:
        return ok("hash seed", "equal under another PYTHONHASHSEED")
    return fail(
        "hash seed",
        f"differs under another PYTHONHASHSEED, and so between two commands: "
        f"{_divergence(first, hashed)}; {HASH_CAUSE}",
        SORT_ADVICE,
    )


def _threads(first: RunRecord, settings: RepetitionSettings) -> Iterator[Finding]:
    """Whether another number of threads changes the weights, if the machine has enough cores."""
    threads = 2 if first.spec.compute["threads"] == 1 else 1
    if threads > usable_cores():
        return
    other = replace(first.spec, compute={**first.spec.compute, "threads": threads})
    # On a busy machine, threads that wait for one another may take very long.
    short = replace(settings, timeout=SLOWER * (first.seconds or 0.0) + SLACK)
    (record,) = execute_separately(
        [RepeatedRun(name="threads", spec=other, variables=FIRST)], short
    )
    part = "compute.threads is part of what identifies a run"
    if record.state is not State.COMPLETED:
        message = f"{threads} would take more than {short.timeout:.0f} s here; {part}"
    elif likeness(first, record) is Likeness.IDENTICAL:
        message = f"equal with {threads}; {part} nevertheless"
    else:
        message = f"weights differ with {threads}, as expected: {part}"
    yield ok("threads", message)


def _environment(spec: RunSpec, settings: RepetitionSettings) -> Finding:
    trace_folder = settings.folder / "environment"
    trace_folder.mkdir()
    configuration: dict[str, Any] = {**spec.environment, "reference": {}}
    return check_environment_repeats(
        configuration, settings.allowed, settings.workspace, trace_folder
    )


def _learner(spec: RunSpec, settings: RepetitionSettings) -> Finding:
    """Whether torch's deterministic algorithms make the learner repeat."""
    variables = {**FIRST, **WORKSPACE}
    executions = [
        RepeatedRun(name=name, spec=spec, variables=variables, deterministic=True)
        for name in ("certain", "certain-again")
    ]
    first, second = execute_separately(executions, settings)
    device = spec.compute["device"]
    message = f"the environment repeats, the learner does not, on compute.device={device}"
    if first.state is not State.COMPLETED:
        return fail(
            "learner",
            f"{message}; torch has no deterministic algorithm for something in it: {first.reason}",
            "train on compute.device=cpu, or accept that weights differ",
        )
    if likeness(first, second) is Likeness.IDENTICAL:
        return fail(
            "learner",
            f"{message}; with torch's deterministic algorithms it does",
            "call torch.use_deterministic_algorithms(True) in a module of environment.imports",
        )
    return fail(
        "learner",
        f"{message}; torch's deterministic algorithms change nothing",
        "draw what is random in agent and algorithm from the generators of torch, numpy or random",
    )


def _divergence(first: RunRecord, second: RunRecord) -> str:
    divergence = first_divergence(first, second)
    if divergence is None:
        return "they differ"
    return f"they differ at step {divergence.step:,}, {divergence.event} {divergence.field}"
