"""Whether a configuration trains to the same numbers each time, and if not, what is in the way."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rlexp.app.checks.asked import Asked, read_asked
from rlexp.app.checks.sources import HASH_SEED, HASHED, SORT, examine_environment
from rlexp.app.diagnostics.finding import Finding, Status, fail, ok
from rlexp.app.diagnostics.repeated_runs import Execution, Place, execute_apart
from rlexp.app.workspace import Workspace
from rlexp.protocol.identity import short_name
from rlexp.protocol.spec import RunSpec
from rlexp.records.divergence import Likeness, first_divergence, likeness
from rlexp.records.events import Failure
from rlexp.records.run import RunRecord, State
from rlexp.store.provenance import usable_cores

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
