"""Estimates the duration and the disk space of runs from those of earlier runs."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from statistics import median

from rlexp.app.workspace import cache_folder
from rlexp.protocol.identity import short_name
from rlexp.protocol.spec import RunSpec
from rlexp.records.run import RunRecord, State
from rlexp.store.files import publish

ROUGH = {"ppo": 2000, "a2c": 2000, "trpo": 2000, "maskable_ppo": 1500, "ars": 5000, "dqn": 500}
"""First guess of environment steps per second on one core of 2026, for light environments."""
ROUGH_OTHER = 70
"""First guess of environment steps per second for every other algorithm."""
ROUGH_BYTES = 1_000_000
"""First guess of the bytes that a run fills."""
START_UP = 4.0
"""Seconds that a command takes before its first run trains."""


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """Expected duration and disk space of all missing runs.

    Attributes:
        seconds: Wall-clock seconds.
        bytes: Bytes on disk.
        measured: Whether every number comes from earlier runs rather than from first guesses.
    """

    seconds: float
    bytes: int
    measured: bool


def cache_file() -> Path:
    """The file that keeps the speeds of earlier runs, for all workspaces of this user."""
    return cache_folder() / "speeds.json"


def estimate_cost(
    specs: Sequence[RunSpec],
    workers: int,
    *,
    continued: Mapping[str, int] | None = None,
    replay: int = 0,
) -> CostEstimate:
    """Estimate the duration and the disk space of runs.

    Args:
        specs: The runs.
        workers: The number of runs at a time.
        continued: The step from which a run continues, by its name; all others start at step 0.
        replay: Bytes that the replay buffer of a run fills on disk until the run has ended.
    """
    speeds = _read()
    continued = continued or {}
    seconds, total, measured = 0.0, 0, True
    for spec in specs:
        speed = speeds.get(_key(spec))
        name = "external" if spec.external else short_name(spec.algorithm)
        rate, size = speed or (float(ROUGH.get(name, ROUGH_OTHER)), float(ROUGH_BYTES))
        measured &= speed is not None
        seconds += max(spec.budget["steps"] - continued.get(spec.name, 0), 0) / rate
        total += int(size)
    # Replay buffers are removed when a run ends, so only those of parallel runs exist together.
    at_a_time = min(workers, len(specs))
    total += replay * at_a_time
    return CostEstimate(seconds / max(at_a_time, 1) + START_UP, total, measured)


def store_speeds(done: Sequence[tuple[RunRecord, int]]) -> None:
    """Store the speeds of finished runs for later estimates; a failure to write is ignored."""
    measurements: dict[str, list[tuple[float, int]]] = {}
    for record, size in done:
        # A run that continued shortly before its end measures mostly its start and end.
        trained = 2 * (record.step - record.begun) >= record.step
        if record.state is State.COMPLETED and record.seconds and trained:
            speed = (record.step - record.begun) / record.seconds
            measurements.setdefault(_key(record.spec), []).append((speed, size))
    stored = _read()
    for key, values in measurements.items():
        # The median is robust against single runs on a busy machine.
        stored[key] = (median(v for v, _ in values), median(s for _, s in values))
    with suppress(OSError):
        publish(cache_file(), json.dumps(stored).encode())


def _key(spec: RunSpec) -> str:
    count = spec.environment.get("vector", {}).get("count", 1)
    environment = spec.environment
    task = environment.get("id") or environment.get("name") or short_name(environment)
    name = f"external {spec.algorithm['name']}" if spec.external else short_name(spec.algorithm)
    return f"{name} {task} x{count} t{spec.compute['threads']}"


def _read() -> dict[str, tuple[float, float]]:
    try:
        document = json.loads(cache_file().read_bytes())
        speeds = {str(k): (float(v[0]), float(v[1])) for k, v in document.items()}
    except (OSError, ValueError, AttributeError, TypeError, LookupError, RecursionError):
        return {}
    # JSON accepts NaN and Infinity, and a speed of 0 would be a division by zero.
    return {k: v for k, v in speeds.items() if all(isfinite(n) and n > 0 for n in v)}
