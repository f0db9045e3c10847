"""Finds out what the runs of a plan cost: from finished runs, from the cache, or by short probes.

`find_costs` is the entry. A probe trains one run of a configuration for some seconds in a process
that is forked from a server like a run (`probe_process.py`), and stores what it measured in the
cache. Probes run as many at a time as runs will, because parallel runs slow each other down.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rlexp.app.execution.checks.compatibility import EnvironmentSpaces
from rlexp.app.execution.estimate import (
    LEAST_PROBE_SPREAD,
    Basis,
    RateCache,
    Rates,
    combine,
    estimate_cost,
    guess_rates,
)
from rlexp.app.execution.launch_settings import PRELOAD, LaunchSettings
from rlexp.app.execution.machine_load import MachineLoad
from rlexp.app.observer import Observer
from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError
from rlexp.executors import Job, Remote, Session
from rlexp.executors.devices import missing_device
from rlexp.executors.local import Local
from rlexp.protocol.identity import canonical, short_name
from rlexp.protocol.spec import RunSpec
from rlexp.temporary_folders import scratch

ENTRY = "rlexp.app.execution.probe_process:execute"
"""The function that a process forked for one probe calls, as module and name."""
REQUEST = "request.json"
"""The file with the specification of the run and the packages that may be imported."""
RESULT = "result.json"
"""The file with the measurements, or with the error that prevented them."""
LOG = "log.txt"
"""The file with the output of a probe."""
PROBE_FROM = 60.0
"""Seconds of a whole plan from which on it is probed: a shorter one is done soon anyway."""
PROBE_LIMIT = 30.0
"""Seconds after which one probe is ended; building an environment may take most of them."""
ALL_PROBES_LIMIT = 60.0
"""Seconds after which no further probe starts, however many configurations a plan has."""
MODEL_FILES = 3
"""Files of a policy's size in a run's folder: the final policy, and two checkpoints."""
JOURNAL_BYTES = 200_000
"""Bytes of a run's other files."""


@dataclass(frozen=True, slots=True)
class Costs:
    """What is known about the costs of runs.

    Attributes:
        spaces: Spaces of the environments that were examined, by canonical configuration.
        rates: What runs cost, by their fingerprints; also first guesses.
        refused: Why runs cannot be built, by their fingerprints.
        load: The present load of the machine that executes the runs; None if it is unknown.
    """

    spaces: Mapping[str, EnvironmentSpaces] = field(default_factory=dict)
    rates: Mapping[str, Rates] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    load: MachineLoad | None = None

    def check(self, specs: Sequence[RunSpec]) -> None:
        """Refuse runs that a probe could not build, before anything starts.

        Raises:
            ConfigError: The learner of a run cannot be built.
        """
        for spec in specs:
            if (reason := self.refused.get(spec.fingerprint)) is not None:
                raise ConfigError(f"{describe_cell(spec)} cannot be built: {reason}")


def describe_cell(spec: RunSpec) -> str:
    """The algorithm and the task of a run as text."""
    environment = spec.environment
    task = environment.get("name") or environment.get("id") or short_name(environment)
    return f"{short_name(spec.algorithm)} on {task}"


def find_costs(
    specs: Sequence[RunSpec],
    launch: LaunchSettings,
    workspace: Workspace,
    observer: Observer,
    spaces: Mapping[str, EnvironmentSpaces] | None = None,
    *,
    probing: bool | None = None,
) -> Costs:
    """What the runs of a plan cost; probes configurations that are not known.

    Args:
        specs: The missing runs.
        launch: How the runs are executed.
        workspace: The workspace, which holds the code of the runs.
        observer: Receives remarks.
        spaces: Spaces of the environments that were examined, by canonical configuration.
        probing: Whether to probe; None probes plans that seem to take a minute or longer.

    Raises:
        ExecutorError: The server that forks probes cannot be started.
    """
    spaces = spaces or {}
    first = {spec.fingerprint: spec for spec in reversed(specs)}
    workers = parallel_runs(launch, len(specs))
    load = MachineLoad.now(workers * launch.threads)
    of_the_runs = None if isinstance(launch.executor, Remote) else load
    cache = RateCache(workers)
    rates = {
        key: cache.find(spec) or guess_rates(spec, spaces.get(canonical(spec.environment)))
        for key, spec in first.items()
    }
    guessed = [
        spec
        for key, spec in first.items()
        if rates[key].basis is Basis.GUESS
        and not spec.external
        # Runs of a remote executor may use a device that this machine lacks.
        and missing_device(spec.compute["device"]) is None
    ]
    expected = estimate_cost(specs, workers, rates=rates).seconds
    if not guessed or probing is False or (probing is None and expected < PROBE_FROM):
        return Costs(spaces, rates, load=of_the_runs)
    observer.note("Measuring for some seconds what a run costs (--no-probe leaves this out)")
    # The longest part of the plan first: all probes together have a limit.
    longest_first = sorted(
        guessed, key=lambda spec: -spec.budget["steps"] * rates[spec.fingerprint].training
    )
    measured = _probe(longest_first, workers, launch, workspace)
    rated = {key: _rates(results, load.others) for key, results in measured.items()}
    probed = {key: of_probe for key, of_probe in rated.items() if of_probe is not None}
    cache.store([(first[key], of_probe) for key, of_probe in probed.items()])
    refused = {key: why for key, results in measured.items() if (why := _refusal(results))}
    for key, results in measured.items():
        if key not in probed and key not in refused:
            observer.note(f"No cost of {describe_cell(first[key])} was measured: {_why(results)}")
    return Costs(spaces, {**rates, **probed}, refused, of_the_runs)


def parallel_runs(launch: LaunchSettings, runs: int) -> int:
    """The number of runs at a time of which each slows the others down on this machine."""
    return max(min(launch.executor.workers_for(launch.threads), runs), 1)


Results = list[dict[str, Any]]
"""The documents that the probes of one configuration have written."""


def _probe(
    specs: Sequence[RunSpec], workers: int, launch: LaunchSettings, workspace: Workspace
) -> dict[str, Results]:
    """Probe configurations, each at least once; returns what was measured, by fingerprint."""
    at_a_time = workers if isinstance(launch.executor, Local) else 1
    measured: dict[str, Results] = {}
    deadline = time.monotonic() + ALL_PROBES_LIMIT
    with (
        scratch("rlexp-probe-") as (folder, _),
        _executor(launch, at_a_time).open(
            ENTRY, PRELOAD, threads=launch.threads, folder=workspace.folder
        ) as session,
    ):
        for number, batch in enumerate(_batches(specs, at_a_time)):
            if measured and time.monotonic() > deadline:
                break
            folders = [
                _write_request(folder / f"{number}-{position}", spec, workspace)
                for position, spec in enumerate(batch)
            ]
            _execute(session, folders)
            for spec, where in zip(batch, folders, strict=True):
                measured.setdefault(spec.fingerprint, []).append(_read(where))
    return measured


def _executor(launch: LaunchSettings, at_a_time: int) -> Local:
    """The executor of probes: that of the runs, or else processes of this machine."""
    if isinstance(launch.executor, Local):
        return replace(launch.executor, workers=at_a_time)
    return Local(workers=at_a_time, hang_timeout=PROBE_LIMIT, grace=1.0, log_limit=1_000_000)


def _batches(specs: Sequence[RunSpec], size: int) -> Iterator[list[RunSpec]]:
    """Probes that run at the same time; the last ones are filled up by repetition."""
    for begin in range(0, len(specs), size):
        yield [specs[(begin + position) % len(specs)] for position in range(size)]


def _write_request(folder: Path, spec: RunSpec, workspace: Workspace) -> Path:
    folder.mkdir()
    request = {"spec": spec.plain(), "allowed": list(workspace.allowed)}
    (folder / REQUEST).write_text(json.dumps(request))
    return folder


def _execute(session: Session, folders: Sequence[Path]) -> None:
    """Execute probes at the same time; kill those that take too long."""
    for folder in folders:
        session.submit(Job(folder.name, (str(folder),), folder / LOG))
    left, deadline = {folder.name for folder in folders}, time.monotonic() + PROBE_LIMIT
    killed = False
    while left:
        left -= {ended.key for ended in session.poll(0.5)}
        if time.monotonic() > deadline and not killed:
            killed = True
            for key in left:
                session.kill(key)


def _read(folder: Path) -> dict[str, Any]:
    try:
        document = json.loads((folder / RESULT).read_bytes())
    except (OSError, ValueError):
        return {"error": f"its process ended, or took more than {PROBE_LIMIT:g} s", "built": True}
    return document if isinstance(document, dict) else {}


def _rates(results: Results, others: float) -> Rates | None:
    """The rates that the probes of a configuration measured; None if none measured any."""
    measured = [_of_document(document, others) for document in results if "step" in document]
    return combine(measured) if measured else None


def _of_document(document: Mapping[str, Any], others: float) -> Rates:
    return Rates(
        start=document["start"],
        step=document["step"],
        update=document["update"],
        episode=document["episode"],
        final_episode=document["episode"],
        spread=max(document["spread"], LEAST_PROBE_SPREAD),
        episode_spread=document["episode_spread"],
        bytes=MODEL_FILES * document["model"] + JOURNAL_BYTES,
        basis=Basis.PROBE,
        others=others,
        gradient=document["gradient"],
    )


def _refusal(results: Results) -> str | None:
    """Why the learner cannot be built; None if it was built or the probe ended early."""
    return next((r["error"] for r in results if r.get("built") is False), None)


def _why(results: Results) -> str:
    return next((str(r["error"]) for r in results if "error" in r), "the probe wrote nothing")
