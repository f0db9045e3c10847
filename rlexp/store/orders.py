"""Orders: runs of an experiment that any worker may take, and what their attempts are asked for.

An order lies there until its run is over or nobody wants it any more. Whoever takes it holds the
run's claim; that it was taken twice by mistake therefore does no harm.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from rlexp.errors import RecordError
from rlexp.records.run import RunRecord, State
from rlexp.store.files import json_bytes, read_json
from rlexp.store.layout import ExperimentPaths
from rlexp.store.schemas import ORDER

SUFFIX = ".json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is asked of a run's attempts.

    Attributes:
        after: The attempts that there were when it was given; what they ended with is no answer.
        settings: What an attempt is asked for besides the run.
        command: What the user typed.
    """

    after: int
    settings: Mapping[str, Any]
    command: tuple[str, ...]

    def stands(self, record: RunRecord) -> bool:
        """Whether the run is still to be attempted."""
        if record.state in {State.COMPLETED, State.PRUNED}:
            return False
        return record.attempts <= self.after or record.may_run()

    @property
    def timeout(self) -> float | None:
        """Seconds that an attempt may take, if they are limited."""
        seconds = self.settings.get("timeout")
        return float(seconds) if seconds is not None else None


def write_order(paths: ExperimentPaths, run: str, order: Order) -> None:
    """Give an order for a run, in place of an earlier one.

    It need not outlive a power cut: the command that gave it gives it again.
    """
    paths.orders.mkdir(parents=True, exist_ok=True)
    temporary = paths.orders / f".{uuid4().hex[:8]}.{run}"
    plain = {
        "after": order.after,
        "settings": dict(order.settings),
        "command": list(order.command),
    }
    temporary.write_bytes(json_bytes(plain, ORDER))
    temporary.replace(_place(paths, run))


def read_order(paths: ExperimentPaths, run: str) -> Order | None:
    """The order for a run, if there is one.

    Raises:
        RecordError: It is damaged.
    """
    place = _place(paths, run)
    if not place.exists():
        return None
    plain = read_json(place)
    try:
        order = Order(
            after=int(plain["after"]),
            settings={**plain["settings"], "allowed": list(plain["settings"]["allowed"])},
            command=tuple(map(str, plain["command"])),
        )
        _ = order.timeout
    except (KeyError, TypeError, ValueError) as error:
        raise RecordError(f"{place} is damaged: {error!r}; repeat the command") from error
    return order


def is_ordered(paths: ExperimentPaths, run: str) -> bool:
    """Whether there is an order for a run."""
    return _place(paths, run).exists()


def withdraw(paths: ExperimentPaths, run: str) -> None:
    """Take an order back, if there is one."""
    _place(paths, run).unlink(missing_ok=True)


def ordered(paths: ExperimentPaths) -> list[str]:
    """The runs that orders are there for, the oldest order first.

    Raises:
        RecordError: The folder cannot be read.
    """
    try:
        with os.scandir(paths.orders) as entries:
            whole = (e for e in entries if e.name.endswith(SUFFIX) and not e.name.startswith("."))
            found = [(_given(entry), entry.name.removesuffix(SUFFIX)) for entry in whole]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RecordError(f"{paths.orders} cannot be read: {error.strerror}") from error
    return [name for _, name in sorted(found)]


def _given(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_mtime_ns
    except OSError:
        return 0


def _place(paths: ExperimentPaths, run: str) -> Path:
    return paths.orders / f"{run}{SUFFIX}"
