"""How long runs will take and how much disk they will fill, from what earlier ones did."""

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
"""Environment steps per second on one core of 2026, of light environments; only a first guess."""
ROUGH_OTHER = 70
ROUGH_BYTES = 1_000_000
START_UP = 4.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds and bytes for all missing runs; `measured` says whether earlier runs told them."""

    seconds: float
    bytes: int
    measured: bool


def cache_file() -> Path:
    """Where speeds of earlier runs are kept, for all studies of this user."""
    return cache_folder() / "speeds.json"


def estimate(
    specs: Sequence[RunSpec],
    workers: int,
    *,
    continued: Mapping[str, int] | None = None,
    replay: int = 0,
) -> Estimate:
    """Estimate the cost of runs.

    Args:
        specs: The runs.
        workers: How many of them run at a time.
        continued: The step from which a run goes on, by its name; all others begin anew.
        replay: Bytes that the replay buffer of a run fills on disk until the run has ended.
    """
    known = _read()
    continued = continued or {}
    seconds, total, measured = 0.0, 0, True
    for spec in specs:
        speed = known.get(_key(spec))
        name = "external" if spec.external else short_name(spec.algorithm)
        rate, size = speed or (float(ROUGH.get(name, ROUGH_OTHER)), float(ROUGH_BYTES))
        measured &= speed is not None
        seconds += max(spec.budget["steps"] - continued.get(spec.name, 0), 0) / rate
        total += int(size)
    at_a_time = min(workers, len(specs))
    total += replay * at_a_time
    return Estimate(seconds / max(at_a_time, 1) + START_UP, total, measured)


def remember(done: Sequence[tuple[RunRecord, int]]) -> None:
    """Keep the speeds of finished runs for the next estimate; losing them loses nothing."""
    speeds: dict[str, list[tuple[float, int]]] = {}
    for record, size in done:
        # One that went on from shortly before its end says little.
        trained = 2 * (record.step - record.begun) >= record.step
        if record.state is State.COMPLETED and record.seconds and trained:
            speed = (record.step - record.begun) / record.seconds
            speeds.setdefault(_key(record.spec), []).append((speed, size))
    known = _read()
    for key, values in speeds.items():
        known[key] = (median(v for v, _ in values), median(s for _, s in values))
    with suppress(OSError):
        publish(cache_file(), json.dumps(known).encode())


def _key(spec: RunSpec) -> str:
    count = spec.environment.get("vector", {}).get("count", 1)
    environment = spec.environment
    task = environment.get("id") or environment.get("name") or short_name(environment)
    name = f"external {spec.algorithm['name']}" if spec.external else short_name(spec.algorithm)
    return f"{name} {task} x{count} t{spec.compute['threads']}"


def _read() -> dict[str, tuple[float, float]]:
    try:
        plain = json.loads(cache_file().read_bytes())
        known = {str(k): (float(v[0]), float(v[1])) for k, v in plain.items()}
    except (OSError, ValueError, AttributeError, TypeError, LookupError, RecursionError):
        return {}
    return {k: v for k, v in known.items() if all(isfinite(n) and n > 0 for n in v)}
