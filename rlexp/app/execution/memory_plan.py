"""Plans the memory of runs: buffers of experience of all parallel runs against what there is.

`check_memory` is the entry. It refuses a plan that cannot fit before anything starts, and names the
words that make it fit.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import ceil

from rlexp.app.execution.checks.compatibility import EnvironmentSpaces
from rlexp.app.execution.checks.replay_checks import bytes_of_replay
from rlexp.app.execution.launch_settings import LaunchSettings
from rlexp.app.execution.probes import describe_cell
from rlexp.errors import ConfigError
from rlexp.executors import Remote
from rlexp.executors.local import Local
from rlexp.executors.memory import memory_limit
from rlexp.protocol.identity import canonical
from rlexp.protocol.spec import RunSpec
from rlexp.text import format_bytes

PROCESS_BYTES = 150_000_000
"""Bytes of a run besides its buffers: environments and networks; parallel runs share libraries."""
KEPT_SHARE = 0.95
"""Share of the memory that runs may take: the operating system needs the rest."""
ROLLOUT_COPIES = 2
"""Copies of a rollout: as it was collected, and flattened for minibatches."""
SCALARS_OF_ROLLOUT = 24
"""Bytes of the reward, value, return, advantage, log-probability and start of a transition."""
MINIBATCH_FRAMES = 2
"""Observations of a transition in a minibatch."""
NUMBERS_OF_PIXEL = 4
"""Bytes of a pixel in a minibatch, where it is a number for the network."""
SIZE = "algorithm.buffer_size"
"""The setting with the transitions of a replay buffer."""
MEMORY_KEYS = (
    *(SIZE, "algorithm.n_steps", "algorithm.batch_size"),
    *("environment.vector.count", "environment.vector.frame_stack"),
)
"""Settings that enlarge the memory of a run with their value."""
UNITS = {"": 1 << 20, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
"""Bytes of the units in which Slurm takes an amount of memory; none means megabytes."""


@dataclass(frozen=True, slots=True)
class RunMemory:
    """The memory of one run in bytes.

    Attributes:
        spec: The run.
        row: Bytes of one transition in its replay buffer; 0 without one.
        rows: Transitions in its replay buffer that are written before the run ends.
        rest: Bytes of everything else.
    """

    spec: RunSpec
    row: int
    rows: int
    rest: int

    @property
    def buffers(self) -> int:
        """Bytes of the buffers of experience."""
        return self.total - PROCESS_BYTES

    @property
    def total(self) -> int:
        """All bytes of the run."""
        return self.row * self.rows + self.rest


def check_memory(
    specs: Iterable[RunSpec],
    launch: LaunchSettings,
    spaces: Mapping[str, EnvironmentSpaces],
    *,
    which: str = "",
    searched: Collection[str] = (),
) -> None:
    """Refuse runs that need more memory together than there is.

    Args:
        specs: The missing runs.
        launch: How the runs are executed.
        spaces: Spaces of their environments, as `check_compatibility` collects them.
        which: What kind of runs these are, for the message.
        searched: The keys that differ between trials of a sweep.

    Raises:
        ConfigError: The runs do not fit; names the words that make them fit.
    """
    limit, at_a_time, whose = _limit(launch)
    if limit is None:
        return
    room = int(KEPT_SHARE * limit)
    needs = sorted(
        (memory_of(spec, spaces.get(canonical(spec.environment)), limit) for spec in specs),
        key=lambda need: -need.total,
    )
    if not needs:
        return
    batch = min(need.spec.batch for need in needs)
    together = needs[: at_a_time * batch]
    # What a run needs besides is only roughly known, so that alone refuses nothing.
    buffers = sum(need.buffers for need in together)
    if _total(together) <= room or buffers < PROCESS_BYTES * len(together):
        return
    alike = launch.changeable and all(need.row for need in needs)
    words = [
        f"{launch.override_option} {word}".lstrip()
        for word in _words(together, room, launch, batch, alike=alike)
    ]
    problem = _problem(together, limit, whose, f", {which}" if which else "")
    raise ConfigError(f"{problem}: {_remedy(together[0], words, searched)}")


def with_fitting_workers(
    specs: Sequence[RunSpec], launch: LaunchSettings, spaces: Mapping[str, EnvironmentSpaces]
) -> LaunchSettings:
    """Launch settings with as many runs at a time as fit into the memory; this changes no number.

    Args:
        specs: The missing runs.
        launch: How the runs are executed.
        spaces: Spaces of their environments; the buffers of others are not counted.

    Raises:
        ConfigError: A single run does not fit.
    """
    executor = launch.executor
    if not isinstance(executor, Local):
        return launch
    for workers in range(executor.workers_for(launch.threads), 1, -1):
        fewer = replace(launch, executor=replace(executor, workers=workers))
        with suppress(ConfigError):
            check_memory(specs, fewer, spaces)
            return fewer
    alone = replace(launch, executor=replace(executor, workers=1))
    check_memory(specs, alone, spaces)
    return alone


def _limit(launch: LaunchSettings) -> tuple[int | None, int, str]:
    """Bytes that runs may take, the number of runs that share them, and whose they are."""
    executor = launch.executor
    if not isinstance(executor, Remote):
        return memory_limit(), max(executor.workers_for(launch.threads), 1), "this machine has"
    amount = getattr(executor, "memory", None)
    whose = f"executor.memory={amount} gives a run"
    if isinstance(amount, int):
        return amount, 1, whose
    match = re.fullmatch(r"(\d+)([KMGT]?)", amount) if isinstance(amount, str) else None
    return (int(match[1]) * UNITS[match[2]] if match else None), 1, whose


def memory_of(spec: RunSpec, spaces: EnvironmentSpaces | None, limit: int) -> RunMemory:
    """The memory of a run.

    A replay buffer is an array of zeros that takes memory only where experience is written, so a
    short run fills a part of it. An array above `limit` bytes cannot be made at all, and counts as
    a whole.

    Args:
        spec: The run.
        spaces: Spaces of its environment; None if they are unknown, which counts no buffer.
        limit: Bytes of the memory that the run is executed in.
    """
    settings = spec.algorithm
    size = settings.get("buffer_size")
    if spaces is None:
        return RunMemory(spec, 0, 0, PROCESS_BYTES)
    steps = int(spec.budget["steps"])
    if isinstance(size, int):
        row = spaces.transition - (spaces.frame if settings.get("optimize_memory_usage") else 0)
        row += bytes_of_replay(spec, "added_bytes")
        whole = size * spaces.frame > limit
        rows = size if whole else min(size, steps)
        # A compiled program holds the whole buffer a second time, filled or not.
        ring = size * spaces.transition if "twin_digest" in settings else 0
        return RunMemory(spec, row, rows, PROCESS_BYTES + ring + _minibatch_bytes(spec, spaces))
    rollout = settings.get("n_steps")
    # A rollout above the budget is refused elsewhere.
    rows = min(rollout * spaces.environments, steps) if isinstance(rollout, int) else 0
    rollout_bytes = ROLLOUT_COPIES * rows * (spaces.frame + SCALARS_OF_ROLLOUT)
    minibatch_bytes = _minibatch_bytes(spec, spaces, rows)
    return RunMemory(spec, 0, 0, PROCESS_BYTES + rollout_bytes + minibatch_bytes)


def _minibatch_bytes(spec: RunSpec, spaces: EnvironmentSpaces, rollout: int | None = None) -> int:
    """Bytes of the observations in a minibatch, of at most `rollout` transitions."""
    size = spec.algorithm.get("batch_size")
    if not isinstance(size, int):
        return 0
    pixels = NUMBERS_OF_PIXEL if "Image" in spaces.observation else 1
    rows = size if rollout is None else min(size, rollout)
    return rows * MINIBATCH_FRAMES * spaces.frame * pixels


def _problem(together: Sequence[RunMemory], limit: int, whose: str, which: str) -> str:
    """Which memory runs need, and which there is; `which` says which runs these are."""
    largest, total = together[0], _total(together)
    size = largest.spec.algorithm.get("buffer_size")
    buffer = f", most of it for {SIZE}={size}" if largest.row * largest.rows > largest.rest else ""
    runs = f"{len(together)} runs at a time need" if len(together) > 1 else "a run needs"
    return (
        f"{runs} {format_bytes(total)} of memory ({describe_cell(largest.spec)}{which}: "
        f"{format_bytes(largest.total)}{buffer}), and {whose} {format_bytes(limit)}"
    )


def _remedy(largest: RunMemory, words: Sequence[str], searched: Collection[str]) -> str:
    if words:
        fixed = any(SIZE in word for word in words) and SIZE in searched
        return f"add {', or '.join(words)}{' (then it is not searched)' if fixed else ''}"
    if largest.row and largest.rest > largest.row * largest.rows:
        return "choose a smaller algorithm.batch_size"
    if largest.row:
        return f"train it in an experiment of its own, with a smaller {SIZE}"
    return "choose a smaller algorithm.n_steps or environment.vector.count"


def _words(
    together: Sequence[RunMemory], room: int, launch: LaunchSettings, batch: int, *, alike: bool
) -> Iterable[str]:
    """Overrides of which each makes the runs fit.

    Args:
        together: The largest runs that are executed at a time, the largest first.
        room: Bytes that they may take.
        launch: How the runs are executed.
        batch: How many of them are advanced together.
        alike: Whether one override can change the replay buffer of every run.
    """
    workers = range(1, ceil(len(together) / batch))
    fitting = [n for n in workers if _total(together[: n * batch]) <= room]
    if fitting:
        yield f"executor.workers={fitting[-1]}"
    rows = _fitting_rows(together, room) if alike else 0
    if rows:
        yield f"{SIZE}={rows}"
    amount = getattr(launch.executor, "memory", None)
    if isinstance(launch.executor, Remote):
        gigabytes = ceil(together[0].total / KEPT_SHARE / UNITS["G"])
        yield f"executor.memory={gigabytes * UNITS['G'] if isinstance(amount, int) else f'{gigabytes}G'}"


def _total(needs: Iterable[RunMemory]) -> int:
    return sum(need.total for need in needs)


def _fitting_rows(together: Sequence[RunMemory], room: int) -> int:
    """The largest replay buffer, in transitions, with which all runs fit; 0 if none does."""
    rows = sum(need.row for need in together)
    left = room - sum(need.rest for need in together)
    most = left // rows if rows and left > 0 else 0
    # A number that is easy to read; an array as large as the memory cannot be made at all.
    digits: int = 10 ** max(len(str(most)) - 2, 0)
    return most // digits * digits
