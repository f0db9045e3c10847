"""The queue of runs that any worker may take: one file per run, with the settings of its attempts.

A file stays in the queue until its run has ended or is cancelled. A worker that takes a run claims
it by a lease. Two workers may read the same file; only one of them gets the claim.
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
class RunOrder:
    """The request to execute a run.

    Attributes:
        after: Number of attempts when the run was queued; only a later attempt answers the order.
        settings: Settings of an attempt besides the run.
        command: The command that the user typed.
    """

    after: int
    settings: Mapping[str, Any]
    command: tuple[str, ...]

    def stands(self, record: RunRecord) -> bool:
        """Whether the run still needs an attempt."""
        if record.state in {State.COMPLETED, State.PRUNED}:
            return False
        return record.attempts <= self.after or record.may_run()

    @property
    def timeout(self) -> float | None:
        """Time limit of an attempt in seconds; None without a limit."""
        seconds = self.settings.get("timeout")
        return float(seconds) if seconds is not None else None


def write_order(paths: ExperimentPaths, run: str, order: RunOrder) -> None:
    """Queue a run; replaces an earlier order for it."""
    paths.orders.mkdir(parents=True, exist_ok=True)
    temporary = paths.orders / f".{uuid4().hex[:8]}.{run}"
    document = {
        "after": order.after,
        "settings": dict(order.settings),
        "command": list(order.command),
    }
    # Without fsync: after a power cut, the repeated command queues the run again.
    temporary.write_bytes(json_bytes(document, ORDER))
    temporary.replace(_order_file(paths, run))


def read_order(paths: ExperimentPaths, run: str) -> RunOrder | None:
    """The order for a run; None where the run is not queued.

    Raises:
        RecordError: The order is damaged.
    """
    path = _order_file(paths, run)
    if not path.exists():
        return None
    document = read_json(path)
    try:
        order = RunOrder(
            after=int(document["after"]),
            settings={**document["settings"], "allowed": list(document["settings"]["allowed"])},
            command=tuple(map(str, document["command"])),
        )
        # Evaluated here, so that a damaged time limit is reported with the name of the file.
        _ = order.timeout
    except (KeyError, TypeError, ValueError) as error:
        raise RecordError(f"{path} is damaged: {error!r}; repeat the command") from error
    return order


def is_queued(paths: ExperimentPaths, run: str) -> bool:
    """Whether a run is queued."""
    return _order_file(paths, run).exists()


def remove_order(paths: ExperimentPaths, run: str) -> None:
    """Remove a run from the queue, if it is queued."""
    _order_file(paths, run).unlink(missing_ok=True)


def queued_runs(paths: ExperimentPaths) -> list[str]:
    """The names of the queued runs, the oldest order first.

    Raises:
        RecordError: The folder cannot be read.
    """
    try:
        with os.scandir(paths.orders) as entries:
            # Hidden names are temporary files of `write_order`.
            files = [e for e in entries if e.name.endswith(SUFFIX) and not e.name.startswith(".")]
            by_time = [(_time_of(entry), entry.name.removesuffix(SUFFIX)) for entry in files]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RecordError(f"{paths.orders} cannot be read: {error.strerror}") from error
    return [name for _, name in sorted(by_time)]


def _time_of(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_mtime_ns
    except OSError:
        # Another process has removed the order since the folder was listed.
        return 0


def _order_file(paths: ExperimentPaths, run: str) -> Path:
    return paths.orders / f"{run}{SUFFIX}"
