"""How long runs will take and how much disk they will fill, from what earlier ones did."""

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from statistics import median

from rlexp.protocol.spec import RunSpec, short_name
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
    home = os.environ.get("RLEXP_HOME") or os.environ.get("XDG_CACHE_HOME")
    base = Path(home) if home else Path.home() / ".cache"
    return base / "rlexp" / "speeds.json"


def estimate(specs: Sequence[RunSpec], workers: int) -> Estimate:
    """Estimate the cost of runs."""
    known = _read()
    seconds, total, measured = 0.0, 0, True
    for spec in specs:
        speed = known.get(_key(spec))
        name = short_name(spec.algorithm)
        rate, size = speed or (float(ROUGH.get(name, ROUGH_OTHER)), float(ROUGH_BYTES))
        measured &= speed is not None
        seconds += spec.budget["steps"] / rate
        total += int(size)
    return Estimate(seconds / min(workers, max(len(specs), 1)) + START_UP, total, measured)


def remember(done: Sequence[tuple[RunRecord, int]]) -> None:
    """Keep the speeds of finished runs for the next estimate; losing them loses nothing."""
    speeds: dict[str, list[tuple[float, int]]] = {}
    for record, size in done:
        if record.state is State.COMPLETED and record.seconds:
            speeds.setdefault(_key(record.spec), []).append((record.step / record.seconds, size))
    known = _read()
    for key, values in speeds.items():
        known[key] = (median(v for v, _ in values), median(s for _, s in values))
    with suppress(OSError):
        publish(cache_file(), json.dumps(known).encode())


def _key(spec: RunSpec) -> str:
    count = spec.environment.get("vector", {}).get("count", 1)
    task = spec.environment.get("id", spec.environment["_target_"])
    return f"{short_name(spec.algorithm)} {task} x{count} t{spec.compute['threads']}"


def _read() -> dict[str, tuple[float, float]]:
    try:
        plain = json.loads(cache_file().read_bytes())
        known = {str(k): (float(v[0]), float(v[1])) for k, v in plain.items()}
    except (OSError, ValueError, AttributeError, TypeError, LookupError, RecursionError):
        return {}
    return {k: v for k, v in known.items() if all(isfinite(n) and n > 0 for n in v)}
