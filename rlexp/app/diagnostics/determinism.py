"""Whether a configuration trains to the same numbers each time, and if not, what is in the way."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rlexp.app.diagnostics.finding import Finding, Status, fail, ok
from rlexp.app.diagnostics.repeated_runs import LOG_LIMIT, TICK, Execution, Place, execute_apart
from rlexp.app.diagnostics.repeating import CURES, Trace
from rlexp.app.execution.environment_variables import given
from rlexp.app.execution.import_permission import check_imports
from rlexp.app.execution.request import read_request
from rlexp.app.workspace import Workspace
from rlexp.config.words import parse_words
from rlexp.errors import ConfigError
from rlexp.executors import Job
from rlexp.executors.local import Local
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.identity import short_name
from rlexp.protocol.spec import RunSpec
from rlexp.records.divergence import Likeness, first_divergence, likeness
from rlexp.records.events import Failure
from rlexp.records.run import RunRecord, State
from rlexp.store.provenance import usable_cores
from rlexp.store.runs import read_spec

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


TIMEOUT = 60.0
"""Seconds that one training may take, unless budget.timeout says otherwise."""
UPDATES = 3
FEWEST = 200
"""Environment steps that are trained at least."""
UNKNOWN = 1000
"""Steps for an algorithm of which nothing is known but its name."""
MOST_NAMED = 3
SETTINGS = ("steps", "timeout")
"""What words may say of the budget of a run that is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is trained several times; `words` are those of the command."""

    spec: RunSpec
    timeout: float
    words: tuple[str, ...]


def read_asked(words: Sequence[str], workspace: Workspace) -> Asked:
    """Read words: a configuration as `rlexp run` takes it, or a run's name and its budget.

    Raises:
        RlexpError: They lead to no configuration or to several, name no run, or would import
            what is not allowed.
    """
    named = bool(words) and "=" not in words[0] and words[0][:1] not in "~+"
    given = _given(words[1:] if named else words)
    spec = _of_run(words, given, workspace) if named else _of_words(words, workspace)
    timeout = given.get("timeout")
    return Asked(
        spec=replace(spec, budget=_small(spec, given)),
        timeout=TIMEOUT if timeout is None else float(timeout),
        words=tuple(words),
    )


def _given(words: Sequence[str]) -> dict[str, Any]:
    """What words say of the budget, by name."""
    parsed = {one.key_or_group: one for one in parse_words(words)}
    return {
        key.removeprefix("budget."): one.value()
        for key, one in parsed.items()
        if key.startswith("budget.")
    }


def _of_run(words: Sequence[str], given: Mapping[str, Any], workspace: Workspace) -> RunSpec:
    name, *others = words
    if len(others) != len(given) or not set(given) <= set(SETTINGS):
        allowed = ", ".join(f"budget.{setting}=…" for setting in SETTINGS)
        raise ConfigError(f"beside the name of a run, only {allowed} can be given")
    for key, value in given.items():
        if not isinstance(value, int | float) or value <= 0:
            raise ConfigError(f"budget.{key}={value!r} must be a number greater than 0")
    spec = read_spec(workspace.run(name))
    _refuse_script(spec)
    command = ["rlexp", "doctor", "--determinism", *words, *workspace.permission]
    check_imports([spec], workspace.allowed, command)
    return spec


def _of_words(words: Sequence[str], workspace: Workspace) -> RunSpec:
    request = read_request(words, workspace)
    specs = [spec for _, spec in request.experiment.specs(request.phase)]
    if len(request.experiment.configurations) != 1:
        raise ConfigError(_several(request.experiment.configurations))
    _refuse_script(specs[0])
    return specs[0]


def _several(found: Sequence[Configuration]) -> str:
    named = [f"{one.label} on {one.task}" for one in found[:MOST_NAMED]]
    more = ["…"] if len(found) > MOST_NAMED else []
    return (
        f"one configuration at a time, and these words ask for {len(found)} "
        f"({', '.join([*named, *more])}): leave one value of each, also of a benchmark, with "
        "words like algorithm=ppo environment=cartpole"
    )


def _refuse_script(spec: RunSpec) -> None:
    if spec.external:
        raise ConfigError(
            "a training script leaves no weights to compare: give 'rlexp run', and compare with "
            "what 'rlexp reproduce' makes of it"
        )


def _small(spec: RunSpec, given: Mapping[str, Any]) -> dict[str, Any]:
    """The budget of a run, as short as a comparison allows where words do not say otherwise."""
    steps = int(given.get("steps", short_training(spec)))
    small = {
        "steps": steps,
        "evaluation_every": max(steps // 2, 1),
        "evaluation_episodes": 2,
        "final_episodes": 2,
        "score": "final",
    }
    kept = {key: spec.budget[key] for key in given if key in spec.budget}
    return {**spec.budget, **small, **kept, "steps": steps}


def short_training(spec: RunSpec) -> int:
    """Environment steps in which the learner updates its parameters three times at least."""
    environments: int = spec.environment.get("vector", {}).get("count", 1)
    begin, rollout = (spec.algorithm.get(key) for key in ("learning_starts", "n_steps"))
    if isinstance(begin, int):
        return begin + FEWEST
    if isinstance(rollout, int):
        return max(UPDATES * rollout * environments, FEWEST)
    return UNKNOWN


FIRST, OTHER = {HASH_SEED: "1"}, {HASH_SEED: "2"}
"""Hashes of strings are the same in the first two executions, and others in the third."""
SLOWER, SLACK = 3.0, 5.0
"""How much longer a training may take with another number of threads: a factor, and seconds."""
WORKSPACE = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
"""What deterministic algorithms need of the linear algebra of graphics processors."""


def check_determinism(words: list[str], workspace: Workspace) -> list[Finding]:
    """Train a configuration several times with the same seeds, and compare.

    Args:
        words: A configuration as `rlexp run` takes it, or the name of a run.
        workspace: Where its code is looked up.

    Raises:
        RlexpError: The words lead to no single configuration.
    """
    asked = read_asked(words, workspace)
    with TemporaryDirectory(prefix="rlexp-doctor-") as temporary:
        place = Place(
            folder=Path(temporary),
            workspace=workspace.folder,
            allowed=workspace.allowed,
            timeout=asked.timeout,
        )
        return list(_findings(asked, place))


def _findings(asked: Asked, place: Place) -> Iterator[Finding]:
    spec = asked.spec
    executions = [
        Execution(name="first", spec=spec, variables=FIRST),
        Execution(name="second", spec=spec, variables=FIRST),
        Execution(name="hashed", spec=spec, variables=OTHER),
    ]
    first, second, hashed = execute_apart(executions, place)
    if broken := next(
        (r for r in (first, second, hashed) if r.state is not State.COMPLETED), None
    ):
        yield _unfinished(broken, asked)
        return
    yield _trainings(first, second)
    repeats = likeness(first, second) is Likeness.IDENTICAL
    if repeats:
        yield _hashing(first, hashed)
        yield from _threads(first, place)
    if not repeats or likeness(first, hashed) is not Likeness.IDENTICAL:
        found = _environment(spec, place)
        yield found
        if found.status is Status.OK and not repeats:
            yield _learner(spec, place)


def _unfinished(record: RunRecord, asked: Asked) -> Finding:
    if record.failure is Failure.TIMEOUT:
        return fail(
            "trainings",
            f"{record.spec.budget['steps']:,} steps took more than {asked.timeout:g} s, after "
            f"{record.step:,} of them",
            f"say how long it may take, with budget.timeout={10 * asked.timeout:g}, or take fewer "
            "steps, with budget.steps=…",
        )
    kind = f" ({record.failure})" if record.failure else ""
    reason = f": {record.reason}" if record.reason else ""
    return fail(
        "trainings", f"one ended as {record.state}{kind}{reason}", "let it train, then check again"
    )


def _trainings(first: RunRecord, second: RunRecord) -> Finding:
    name = short_name(first.spec.algorithm)
    steps = f"{first.step:,} steps of {name} on {first.spec.environment.get('id', 'its task')}"
    if likeness(first, second) is Likeness.IDENTICAL:
        return ok(
            "trainings",
            f"{steps}, twice, in processes of their own: equal weights "
            f"({str(first.weights)[:12]}) and evaluations",
        )
    return fail(
        "trainings",
        f"{steps}, twice with equal seeds: {_place(first, second)}",
        "what it depends on is said below",
    )


def _hashing(first: RunRecord, hashed: RunRecord) -> Finding:
    if likeness(first, hashed) is Likeness.IDENTICAL:
        return ok("hash seed", "equal under another PYTHONHASHSEED")
    return fail(
        "hash seed",
        f"differs under another PYTHONHASHSEED, and so between two commands: "
        f"{_place(first, hashed)}; {HASHED}",
        SORT,
    )


def _threads(first: RunRecord, place: Place) -> Iterator[Finding]:
    """What another number of threads changes, where the machine has another."""
    threads = 2 if first.spec.compute["threads"] == 1 else 1
    if threads > usable_cores():
        return
    other = replace(first.spec, compute={**first.spec.compute, "threads": threads})
    # On a busy machine, threads that wait for one another may take very long.
    short = replace(place, timeout=SLOWER * (first.seconds or 0.0) + SLACK)
    (record,) = execute_apart([Execution(name="threads", spec=other, variables=FIRST)], short)
    part = "compute.threads is part of what identifies a run"
    if record.state is not State.COMPLETED:
        told = f"{threads} would take more than {short.timeout:.0f} s here; {part}"
    elif likeness(first, record) is Likeness.IDENTICAL:
        told = f"equal with {threads}; {part} all the same"
    else:
        told = f"weights differ with {threads}, as they may: {part}"
    yield ok("threads", told)


def _environment(spec: RunSpec, place: Place) -> Finding:
    notes = place.folder / "environment"
    notes.mkdir()
    plain: dict[str, Any] = {**spec.environment, "reference": {}}
    return examine_environment(plain, place.allowed, place.workspace, notes)


def _learner(spec: RunSpec, place: Place) -> Finding:
    """Whether torch's deterministic algorithms make the learner repeat."""
    variables = {**FIRST, **WORKSPACE}
    executions = [
        Execution(name=name, spec=spec, variables=variables, deterministic=True)
        for name in ("certain", "certain-again")
    ]
    one, other = execute_apart(executions, place)
    device = spec.compute["device"]
    told = f"the environment repeats, the learner does not, on compute.device={device}"
    if one.state is not State.COMPLETED:
        return fail(
            "learner",
            f"{told}; torch has no deterministic algorithm for something in it: {one.reason}",
            "train on compute.device=cpu, or accept that weights differ",
        )
    if likeness(one, other) is Likeness.IDENTICAL:
        return fail(
            "learner",
            f"{told}; with torch's deterministic algorithms it does",
            "call torch.use_deterministic_algorithms(True) in a module of environment.imports",
        )
    return fail(
        "learner",
        f"{told}; torch's deterministic algorithms change nothing",
        "draw what is random in agent and algorithm from the generators of torch, numpy or random",
    )


def _place(first: RunRecord, second: RunRecord) -> str:
    found = first_divergence(first, second)
    if found is None:
        return "they part"
    return f"they part at step {found.step:,}, {found.event} {found.field}"
