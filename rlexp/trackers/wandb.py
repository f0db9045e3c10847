"""Weights & Biases: online, offline or disabled, as W&B's own settings say."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from annotated_types import Ge, Gt, MaxLen, MinLen

from rlexp.errors import RlexpError, TrackerRefused, TrackerUnreachable
from rlexp.trackers import (
    Ended,
    Reached,
    Row,
    Sink,
    Summary,
    TrackedExperiment,
    TrackedRun,
)
from rlexp.trackers.wandb_client import Client
from rlexp.trackers.wandb_content import ending, introduction, overview
from rlexp.trackers.wandb_settings import Resolved, resolved

Found = TypeVar("Found")
BATCH = 250
"""Rows that are handed over at a time."""
START = 90.0
"""Seconds in which W&B's own process must be up, on a machine that is busy with training."""
SLACK = 15.0
"""Seconds that are given beyond what W&B is told to take at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WandB:
    """Runs of a W&B project: a group for each label, a summary run for each experiment.

    Attributes:
        project: The project there.
        entity: The user or team; null: as W&B's settings say, else the key's own.
        mode: Null: as W&B's settings say (WANDB_MODE, `wandb offline`), else online.
        base_url: The server; null: as W&B's settings say, else W&B's own.
        models: Whether the final models are uploaded.
        tags: Of every run.
        timeout: Seconds within which W&B must answer.
        wait: Seconds that a command waits at its end.
        required: Whether a command refuses to start without it.
    """

    project: Annotated[str, MinLen(1), MaxLen(128)] = "rlexp"
    entity: Annotated[str, MinLen(1)] | None = None
    mode: Literal["online", "offline", "disabled"] | None = None
    base_url: Annotated[str, MinLen(1)] | None = None
    models: bool = False
    tags: tuple[Annotated[str, MinLen(1), MaxLen(64)], ...] = ()
    timeout: Annotated[float, Gt(0)] = 30.0
    wait: Annotated[float, Ge(0)] = 10.0
    required: bool = False

    def place(self, project: Path) -> str:
        """The project in the service, or nowhere; see `Tracker.place`.

        Online and offline are two ways to one place: what is written offline goes on where what
        was pushed online ends.
        """
        found = self._resolved(project)
        if found.mode == "disabled":
            return ""
        where = f"{found.entity}/{self.project}" if found.entity else self.project
        return f"W&B project {where} at {found.address}"

    def open(self, experiment: TrackedExperiment) -> Sink:
        """Start W&B's process and show it the key; see `Tracker.open`."""
        found = self._resolved(experiment.project)
        if found.mode == "disabled":
            return _Disabled()
        if found.mode not in {"online", "offline"}:
            raise TrackerRefused(
                f"WANDB_MODE is '{found.mode}': choose online, offline or disabled"
            )
        if find_spec("wandb") is None:
            raise TrackerRefused(
                "wandb is not installed: pip install 'rlexp[wandb]'",
                code="missing_package",
                command="pip install 'rlexp[wandb]'",
            )
        sink = _Runs(self, found, experiment)
        sink.reach()
        return sink

    def _resolved(self, project: Path) -> Resolved:
        return resolved(os.environ, project, self.mode, self.base_url, self.entity)


class _Disabled:
    """W&B is told to do nothing: everything counts as taken."""

    def begin(self, run: TrackedRun, reached: Reached) -> Reached:  # noqa: ARG002
        return reached

    def push(self, run: TrackedRun, rows: Sequence[Row]) -> Reached:  # noqa: ARG002
        return Reached(step=rows[-1].step)

    def end(self, run: TrackedRun, ended: Ended) -> Reached:  # noqa: ARG002
        return Reached(step=ended.step)

    def summarise(self, summary: Summary) -> None:
        pass

    def close(self) -> None:
        pass


@dataclass(slots=True)
class _Run:
    """A run that is open here.

    Attributes:
        tracked: What it is.
        safe: The step up to which W&B has every row, in its service or in finished folders.
        rows: Taken, and perhaps lost if W&B's process dies.
        life: The process in which it is open, by number.
    """

    tracked: TrackedRun
    safe: int
    rows: list[Row] = field(default_factory=list)
    life: int = -1

    @property
    def taken(self) -> int:
        return self.rows[-1].step if self.rows else self.safe


class _Runs:
    """Runs in W&B's process, which is done away with whenever something fails.

    W&B keeps what it could not upload to itself, says that all is well, and waits for ever: a
    fresh process, the step that the service itself names, and the rows beyond it mend that all.
    """

    def __init__(self, settings: WandB, where: Resolved, experiment: TrackedExperiment) -> None:
        self._settings = settings
        self._where = where
        self._experiment = experiment
        self._client = Client(experiment.folder, settings.timeout)
        self._open: dict[str, _Run] = {}

    def reach(self) -> None:
        """Start the process, if none is there; raises what `Tracker.open` does."""
        if not self._client.alive:
            settings, where = self._settings, self._where
            told = {
                "project": settings.project,
                "entity": where.entity,
                "mode": where.mode,
                "base_url": where.base_url,
                "tags": settings.tags,
                "timeout": settings.timeout,
                "folder": str(self._experiment.folder),
            }
            self._safely(lambda: self._client.start(told, START + settings.timeout))

    def begin(self, run: TrackedRun, reached: Reached) -> Reached:
        """See `Sink.begin`: the service itself says what it has; offline, the cursor does."""
        if not self._is_online and reached.kept.get("online"):
            raise TrackerUnreachable(
                "W&B has rows of a run that began online, and offline nobody knows how many: "
                "rlexp sync online first"
            )
        opened = self._open[run.id] = _Run(run, reached.step)
        self._revive(opened)
        return self._reached(opened)

    def push(self, run: TrackedRun, rows: Sequence[Row]) -> Reached:
        """See `Sink.push`: nothing is safe before the end."""
        opened = self._open[run.id]
        self._revive(opened)
        fresh = [row for row in rows if row.step > opened.taken]
        self._log(run, fresh)
        opened.rows += fresh
        return self._reached(opened)

    def end(self, run: TrackedRun, ended: Ended) -> Reached:
        """See `Sink.end`: waits until W&B has everything."""
        opened = self._open[run.id]
        self._revive(opened)
        model = ended.files.get("model.zip") if self._settings.models else None
        told = {**ending(ended), "last": opened.taken, "model": str(model) if model else None}
        self._call("end", id=run.id, **told)
        del self._open[run.id]
        return Reached(step=opened.taken)

    def summarise(self, summary: Summary) -> None:
        """See `Sink.summarise`."""
        self.reach()
        self._call("summarise", **overview(self._experiment, summary))

    def close(self) -> None:
        """See `Sink.close`."""
        self._client.kill()
        self._open.clear()

    @property
    def _is_online(self) -> bool:
        return self._where.mode == "online"

    def _reached(self, opened: _Run) -> Reached:
        return Reached(step=opened.safe, kept={"online": True} if self._is_online else {})

    def _revive(self, opened: _Run) -> None:
        """Open the run, unless it is: its rows that the service does not have go first."""
        self.reach()
        if opened.life == self._client.life:
            return
        opened.safe = int(self._call("begin", **introduction(opened.tracked), after=opened.safe))
        opened.rows = [row for row in opened.rows if row.step > opened.safe]
        opened.life = self._client.life
        self._log(opened.tracked, opened.rows)

    def _log(self, run: TrackedRun, rows: Sequence[Row]) -> None:
        for start in range(0, len(rows), BATCH):
            batch = [(r.step, r.time, dict(r.metrics)) for r in rows[start : start + BATCH]]
            self._call("push", id=run.id, rows=batch)

    def _call(self, what: str, **told: Any) -> Any:
        # To begin, W&B is asked twice; in the end it uploads, and then is asked what it has.
        seconds = 2 * self._settings.timeout + SLACK
        return self._safely(lambda: self._client.call({"do": what, **told}, seconds))

    def _safely(self, action: Callable[[], Found]) -> Found:
        try:
            return action()
        except RlexpError:
            self._client.kill()
            raise
