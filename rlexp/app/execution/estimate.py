"""Estimates the duration and the disk space of runs, from finished runs, probes or first guesses.

`Rates` says what a run costs: environment steps, updates and evaluation apart, so that the estimate
holds for any budget. `RateCache` keeps rates by what they depend on. `estimate_cost` composes them
to a plan, with a range.
"""

import heapq
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from math import ceil, isfinite
from pathlib import Path
from statistics import median
from typing import Any, Self

from rlexp.app.execution.checks.compatibility import EnvironmentSpaces
from rlexp.app.execution.checks.import_permission import foreign_modules
from rlexp.app.execution.machine_load import MachineLoad, waiting_processes
from rlexp.app.execution.software_versions import collect_versions
from rlexp.protocol.identity import canonical, digest
from rlexp.protocol.seeds import EVALUATION_ENVIRONMENTS
from rlexp.protocol.spec import RunSpec
from rlexp.records.logged_values import OFFLINE_STEPS
from rlexp.records.run import RunRecord, State
from rlexp.store.files import publish
from rlexp.store.layout import cache_folder
from rlexp.store.provenance import machine

START_UP = 4.0
"""Seconds that a command takes before its first run trains, on an idle machine."""
ROUGH_BYTES = 1_000_000
"""First guess of the bytes that a run fills."""
ROUGH_STEP = 0.0004
"""First guess of the seconds of an environment step on one core of 2026, in Gymnasium's tasks."""
ROUGH_FOREIGN_STEP = 0.01
"""The same for tasks of other packages, of which nothing is known: rather too long."""
ROUGH_IMAGE_STEP = 0.003
"""The same where observations are images."""
ROUGH_GRADIENT = 0.012
"""First guess of the seconds of a gradient step on a minibatch of a replay buffer."""
ROUGH_IMAGE_GRADIENT = 0.025
"""The same where observations are images."""
ROUGH_ROLLOUT = 0.0003
"""First guess of the seconds of updates for each step of a rollout."""
ROUGH_IMAGE_ROLLOUT = 0.025
"""The same where observations are images."""
OBSERVED_SHARE = 0.5
"""Share of its steps that the events of a run must cover, so that its rate is that of training."""
LEAST_SPREAD = 1.25
"""Factor by which the rates of two equal runs on one machine differ at least."""
LEAST_PROBE_SPREAD = 1.45
"""Factor by which the rates of a run differ at least from those of a probe of some seconds.

With it, the ranges of 18 of 19 plans held the true duration (`benchmarks/README.md`).
"""


class Basis(StrEnum):
    """Where an estimate comes from, the least certain first."""

    GUESS = "guess"
    PROBE = "probe"
    RUNS = "runs"

    @property
    def rank(self) -> int:
        """The certainty; a higher rank is more certain."""
        return list(Basis).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What a run costs.

    Attributes:
        start: Seconds before the first step: environments and learner are built.
        step: Seconds of one environment step without updates.
        update: Seconds of updates for one environment step, once learning has started.
        episode: Seconds of one episode of an evaluation during training.
        final_episode: Seconds of one episode of the final evaluation.
        spread: Factor, at least 1, by which the rates may be wrong.
        episode_spread: Factor, at least 1, by which the length of episodes may be wrong.
        bytes: Bytes on disk.
        basis: Where the rates come from.
        others: Processes of other programs that wanted to compute meanwhile, as a mean.
        gradient: Seconds of one gradient step on a dataset, before the first environment step.
    """

    start: float
    step: float
    update: float
    episode: float
    final_episode: float
    spread: float
    episode_spread: float
    bytes: int
    basis: Basis
    others: float = 0.0
    gradient: float = 0.0

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Rates from JSON values.

        Raises:
            ValueError: A value is no number of the expected kind.
        """
        numbers = {k: float(v) for k, v in document.items() if k != "basis"}
        rates = cls(**{**numbers, "bytes": int(numbers["bytes"])}, basis=Basis(document["basis"]))  # type: ignore[arg-type]
        # JSON accepts NaN and Infinity.
        if not all(isfinite(n) and n >= 0 for n in numbers.values()) or rates.training <= 0:
            raise ValueError("a rate is no finite number above 0")
        if min(rates.spread, rates.episode_spread) < 1:
            raise ValueError("a spread is less than 1")
        return rates

    @property
    def training(self) -> float:
        """Seconds of one environment step with its updates."""
        return self.step + self.update


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """Expected duration and disk space of all missing runs.

    Attributes:
        seconds: Wall-clock seconds.
        bytes: Bytes on disk.
        low: The least duration to expect, in seconds; None for a first guess.
        high: The longest duration to expect, in seconds; None for a first guess.
        basis: Where the least certain part of the estimate comes from.
    """

    seconds: float
    bytes: int
    low: float | None
    high: float | None
    basis: Basis

    def of_plan(self) -> dict[str, Any]:
        """The fields of a plan that show this estimate; seconds are rounded."""
        return {
            "seconds": round(self.seconds, 1),
            "seconds_low": None if self.low is None else round(self.low, 1),
            "seconds_high": None if self.high is None else round(self.high, 1),
            "bytes": self.bytes,
            "measured": self.basis is not Basis.GUESS,
            "basis": str(self.basis),
        }


def cache_file() -> Path:
    """The file that keeps rates of earlier runs and probes, for all workspaces of this user."""
    return cache_folder() / "rates.json"


def _read() -> dict[str, Rates]:
    try:
        document = json.loads(cache_file().read_bytes())
        return {str(key): Rates.read(rates) for key, rates in document.items()}
    except (OSError, ValueError, AttributeError, TypeError, LookupError, RecursionError):
        return {}


@dataclass(slots=True)
class RateCache:
    """Rates of finished runs and of probes, by what they depend on.

    They depend on task, agent, algorithm, threads and device, on the machine, on the versions of
    packages and code, and on the number of runs at a time, which share the machine.

    Attributes:
        workers: The number of runs, or of batches of runs, at a time.
    """

    workers: int
    _stored: dict[str, Rates] = field(default_factory=_read)
    _keys: dict[str, str] = field(default_factory=dict)
    _versions: dict[str, Any] = field(default_factory=dict)

    def find(self, spec: RunSpec) -> Rates | None:
        """The rates of runs like this one; None where none are known."""
        return self._stored.get(self._key(spec))

    def store(self, measured: Sequence[tuple[RunSpec, Rates]]) -> None:
        """Keep rates; a probe does not replace the rates of runs. A failure to write is ignored."""
        # Another command may have written meanwhile.
        self._stored = _read()
        for spec, rates in measured:
            nearest = self.find(spec)
            if nearest is None or nearest.basis.rank <= rates.basis.rank:
                self._stored[self._key(spec)] = rates
        content = {key: asdict(rates) for key, rates in self._stored.items()}
        with suppress(OSError):
            publish(cache_file(), json.dumps(content).encode())

    def _key(self, spec: RunSpec) -> str:
        if spec.fingerprint not in self._keys:
            parts = {name: part for name, part in spec.parts.items() if name != "budget"}
            surroundings = [self._versions_of(spec), machine()["host"], self.workers]
            self._keys[spec.fingerprint] = digest({"parts": parts, "on": surroundings})
        return self._keys[spec.fingerprint]

    def _versions_of(self, spec: RunSpec) -> Any:
        key = canonical([spec.environment, spec.compute, sorted(foreign_modules(spec))])
        if key not in self._versions:
            self._versions[key] = collect_versions(spec)
        return self._versions[key]


def guess_rates(spec: RunSpec, spaces: EnvironmentSpaces | None = None) -> Rates:
    """A first guess of what a run costs, from its settings alone.

    Args:
        spec: The run.
        spaces: Spaces of its environment; None if they are unknown.
    """
    image = spaces is not None and "Image" in spaces.observation
    foreign = spaces is not None and not spaces.light
    settings, update, gradient = spec.algorithm, 0.0, 0.0
    step = ROUGH_FOREIGN_STEP if foreign else ROUGH_STEP
    if "buffer_size" in settings:
        gradient = ROUGH_IMAGE_GRADIENT if image else ROUGH_GRADIENT
        update = _gradient_steps(spec) * gradient
    elif "n_steps" in settings:
        update = ROUGH_IMAGE_ROLLOUT if image else ROUGH_ROLLOUT
    return Rates(
        start=0.0,
        step=max(step, ROUGH_IMAGE_STEP) if image else step,
        update=update,
        episode=0.0,
        final_episode=0.0,
        spread=1.0,
        episode_spread=1.0,
        bytes=ROUGH_BYTES,
        basis=Basis.GUESS,
        gradient=gradient,
    )


def _gradient_steps(spec: RunSpec) -> float:
    """Gradient steps for one environment step of a learner with a replay buffer."""
    steps, frequency = spec.algorithm.get("gradient_steps", 1), spec.algorithm.get("train_freq", 1)
    if steps < 0 or not isinstance(frequency, int):
        return 1.0
    count = spec.environment.get("vector", {}).get("count", 1)
    return float(steps / max(frequency * count, 1))


def estimate_cost(
    specs: Sequence[RunSpec],
    workers: int,
    *,
    rates: Mapping[str, Rates] | None = None,
    continued: Mapping[str, int] | None = None,
    replay: int = 0,
    load: MachineLoad | None = None,
) -> CostEstimate:
    """Estimate the duration and the disk space of runs.

    Args:
        specs: The runs.
        workers: The number of runs at a time.
        rates: What runs cost, by their fingerprints; all others are guessed.
        continued: The step from which a run continues, by its name; all others start at step 0.
        replay: Bytes that the replay buffer of a run fills on disk until the run has ended.
        load: The present load of the machine that executes the runs; None if it is unknown, which
            leaves it out of the range.
    """
    rates, continued = rates or {}, continued or {}
    rates_of_runs = [rates.get(spec.fingerprint) or guess_rates(spec) for spec in specs]
    every = [
        _run_seconds(s, r, continued.get(s.name, 0), load)
        for s, r in zip(specs, rates_of_runs, strict=True)
    ]
    # The rates are those of a run in its batch, whose lanes share the time.
    at_a_time = workers * min((spec.batch for spec in specs), default=1)
    basis = min((r.basis for r in rates_of_runs), key=lambda basis: basis.rank, default=Basis.RUNS)
    starts = _start_seconds(load)
    of_runs = zip(*every, strict=True) if every else ((), (), ())
    low, expected, high = (
        start + _last_end(durations, at_a_time)
        for start, durations in zip(starts, of_runs, strict=True)
    )
    # Replay buffers are removed when a run ends, so only those of parallel runs exist together.
    total = sum(r.bytes for r in rates_of_runs) + replay * min(at_a_time, len(specs))
    guessed = basis is Basis.GUESS
    return CostEstimate(
        expected, total, None if guessed else low, None if guessed else high, basis
    )


def _start_seconds(load: MachineLoad | None) -> tuple[float, float, float]:
    """Least, expected and longest seconds that a command takes before its first run trains."""
    others = load.others if load else 0.0
    expected = START_UP * (load.slowdown(others) if load else 1.0)
    faster, slower = _factors(LEAST_SPREAD, others, load)
    return expected / faster, expected, expected * slower


def _last_end(durations: Sequence[float], workers: int) -> float:
    """When the last run ends, if each starts as soon as a worker is free; in seconds."""
    ends = [0.0] * min(max(workers, 1), max(len(durations), 1))
    for seconds in durations:
        heapq.heapreplace(ends, ends[0] + seconds)
    return max(ends)


def _run_seconds(
    spec: RunSpec, rates: Rates, begun: int, load: MachineLoad | None
) -> tuple[float, float, float]:
    """Least, expected and longest seconds of a run that continues from step `begun`."""
    steps, every = int(spec.budget["steps"]), spec.budget.get("evaluation_every")
    starts = spec.algorithm.get("learning_starts") or 0
    learning = max(steps - max(begun, starts), 0)
    trained = rates.start + max(steps - begun, 0) * rates.step + learning * rates.update
    # A run with a checkpoint of an environment step has its offline stage behind it.
    trained += 0.0 if begun else spec.offline_steps * rates.gradient
    evaluations = steps // every - begun // every if every else 0
    evaluated = evaluations * _rounds(spec.budget["evaluation_episodes"]) * rates.episode
    evaluated += _rounds(spec.budget["final_episodes"]) * rates.final_episode
    faster, slower = _factors(rates.spread, rates.others, load)
    return (
        (trained + evaluated / rates.episode_spread) / faster,
        trained + evaluated,
        (trained + evaluated * rates.episode_spread) * slower,
    )


def _factors(spread: float, others: float, load: MachineLoad | None) -> tuple[float, float]:
    """The factors by which something may become faster and slower than it was measured.

    Args:
        spread: The factor on an unchanged machine.
        others: Processes of other programs while it was measured.
        load: The present load of the machine; None if it is unknown.
    """
    if load is None:
        return spread, spread
    return spread * load.speed_up_later(others), spread * load.slowdown_later(others)


def _rounds(episodes: int) -> int:
    """Episodes of an evaluation, rounded up to full rounds of its vector of environments."""
    return ceil(episodes / EVALUATION_ENVIRONMENTS) * EVALUATION_ENVIRONMENTS


def store_rates(done: Sequence[tuple[RunRecord, int]], workers: int) -> None:
    """Store the rates of finished runs for later estimates; a failure to write is ignored.

    Args:
        done: Records of runs, and their bytes on disk.
        workers: The number of runs that were executed at a time.
    """
    measured: dict[str, list[Rates]] = {}
    specs = {record.spec.fingerprint: record.spec for record, _ in done}
    waiting = waiting_processes()
    for record, size in done:
        if rates := rates_of_run(record, size):
            # The runs themselves are among the processes of the last minute.
            threads = workers * int(record.spec.compute["threads"])
            measured.setdefault(record.spec.fingerprint, []).append(
                replace(rates, others=max(waiting - threads, 0.0))
            )
    if measured:
        RateCache(workers).store(
            [(specs[key], combine(values)) for key, values in measured.items()]
        )


def rates_of_run(record: RunRecord, size: int) -> Rates | None:
    """What a completed run cost, without its start-up and its final evaluation.

    None where its events do not show the rate of training: it continued from a checkpoint, was too
    short to log anything, or collected random experience for most of its steps.

    Args:
        record: The record of the run.
        size: Its bytes on disk.
    """
    final, begun = record.final, record.started
    if record.state is not State.COMPLETED or record.begun or final is None or begun is None:
        return None
    starts = record.spec.algorithm.get("learning_starts") or 0
    events = [(e.time, e.step) for e in record.measurements]
    events += [(e.time, e.step) for e in record.evaluations]
    first, at = min((e for e in events if e[1] >= max(starts, 1)), default=(0.0, final.step))
    if final.step - at < OBSERVED_SHARE * final.step:
        return None
    later = sum(e.seconds for e in record.evaluations if e.time > first)
    earlier = sum(e.seconds for e in record.evaluations if e.time <= first)
    step = (final.time - final.seconds - first - later) / (final.step - at)
    if step <= 0:
        return None
    seconds, episodes = later + earlier, sum(len(e.returns) for e in record.evaluations)
    gradient = _gradient_seconds(record)
    begin = first - begun - earlier - at * step - record.spec.offline_steps * gradient
    last = (final.seconds + sum(e.seconds for e in record.examinations)) / _rounds(
        len(final.returns)
    )
    rounds = sum(_rounds(len(e.returns)) for e in record.evaluations)
    typical = seconds / rounds if episodes else last
    return Rates(
        start=max(begin, 0.0),
        step=step,
        update=0.0,
        episode=typical,
        final_episode=last,
        spread=LEAST_SPREAD,
        episode_spread=_episode_spread(record, typical),
        bytes=size,
        basis=Basis.RUNS,
        gradient=gradient,
    )


def _gradient_seconds(record: RunRecord) -> float:
    """Seconds of one gradient step of the offline stage; 0 without events that show it."""
    reports = [
        (event.time, event.metrics[OFFLINE_STEPS])
        for event in record.measurements
        if OFFLINE_STEPS in event.metrics
    ]
    if len(reports) < 2:
        return 0.0
    (begun, first), (ended, last) = reports[0], reports[-1]
    return max(ended - begun, 0.0) / (last - first) if last > first else 0.0


def _episode_spread(record: RunRecord, typical: float) -> float:
    """The largest factor between the seconds of an episode in an evaluation and the mean of all.

    Episodes change while a policy learns, so those of a longer or shorter run differ from the mean.
    """
    every = [e.seconds / _rounds(len(e.returns)) for e in record.evaluations if e.returns]
    factors = [max(each / typical, typical / each) for each in every if each > 0 < typical]
    return max(factors, default=1.0)


def combine(several: Sequence[Rates]) -> Rates:
    """The medians of several measurements of equal runs; the spread covers all of them."""

    def middle(name: str) -> float:
        # The median is robust against single runs on a busy machine.
        return float(median(getattr(rates, name) for rates in several))

    typical = middle("step") + middle("update")
    factors = [max(r.training / typical, typical / r.training) for r in several if r.training]
    return replace(
        several[0],
        start=middle("start"),
        step=middle("step"),
        update=middle("update"),
        episode=middle("episode"),
        final_episode=middle("final_episode"),
        episode_spread=middle("episode_spread"),
        spread=max([middle("spread"), *factors]),
        bytes=int(middle("bytes")),
        others=middle("others"),
        gradient=middle("gradient"),
    )
