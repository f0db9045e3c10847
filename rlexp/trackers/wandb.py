"""Weights & Biases: online, offline or disabled, as W&B's own settings say."""

import json
import os
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from configparser import ConfigParser, Error
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.util import find_spec
from math import ceil, isfinite, isnan
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from annotated_types import Ge, Gt, MaxLen, MinLen

from rlexp.errors import RlexpError, TrackerRefused, TrackerUnreachable
from rlexp.trackers import (
    Aggregate,
    Ended,
    Reached,
    Row,
    Sink,
    Summary,
    TrackedExperiment,
    TrackedRun,
)

CLOUD = "https://api.wandb.ai"
MODES = {"run": "online", "shared": "online", "dryrun": "offline"}
"""Other names of its modes."""


@dataclass(frozen=True, slots=True)
class ResolvedSettings:
    """What is asked for, whoever said it.

    Attributes:
        mode: `online`, `offline`, `disabled`, or what the environment says instead.
        base_url: The server.
        entity: The user or team; none: the key's own.
    """

    mode: str
    base_url: str
    entity: str | None

    @property
    def address(self) -> str:
        """The server's address without a login."""
        return re.sub(r"(?<=://)[^/@]*@", "", self.base_url)


def resolve_settings(
    environment: Mapping[str, str],
    folder: Path,
    mode: str | None,
    base_url: str | None,
    entity: str | None,
) -> ResolvedSettings:
    """What holds: an own setting, else a variable, else what W&B keeps there, then for the user.

    Args:
        environment: Variables.
        folder: The project's.
        mode: An own setting.
        base_url: An own setting.
        entity: An own setting.
    """
    files = _files(environment, folder)

    def found(own: str | None, name: str) -> str | None:
        return own or environment.get(f"WANDB_{name.upper()}") or files.get(name) or None

    named = found(mode, "mode") or "online"
    address = found(base_url, "base_url") or CLOUD
    return ResolvedSettings(MODES.get(named, named), address.rstrip("/"), found(entity, "entity"))


def _files(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """What W&B's settings files say, the folder's over the user's."""
    own = Path(environment.get("WANDB_CONFIG_DIR") or "~/.config/wandb").expanduser()
    local = Path(environment.get("WANDB_DIR") or folder)
    near = local / (".wandb" if (local / ".wandb").is_dir() else "wandb")
    found: dict[str, str] = {}
    for path in (own / "settings", near / "settings"):
        parser = ConfigParser(interpolation=None)
        try:
            parser.read_string(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, Error):
            continue
        if parser.has_section("default"):
            found.update(parser.items("default"))
    return found


LONGEST = 128
"""Characters of a name or a group."""
COUNTS = ("label", "task", "phase", "n", "planned", "failed", "missing")
INTERVAL = ("low", "high", "level", "method", "seed", "in words")
_ACTIVE = re.compile(
    r"<\s*(script|foreignobject|iframe|object|embed)|\bon\w+\s*=|javascript:", re.IGNORECASE
)


def begin_request(run: TrackedRun) -> dict[str, Any]:
    """What is said of a run when it begins."""
    about = {
        "label": run.label,
        "task": run.task,
        "phase": run.phase,
        "seed": run.seed,
        "trial": run.trial,
        "fingerprint": run.fingerprint,
        "commit": run.commit,
    }
    return {
        "id": run.id,
        "name": _short(f"{run.label} {run.task} {run.phase} {run.seed}"),
        "group": _short(run.group),
        "job_type": run.phase,
        "config": _shown({**run.configuration, **about}),
    }


def end_request(ended: Ended) -> dict[str, Any]:
    """What is said of a run when no process works at it any more."""
    about = {
        "score": ended.score,
        "score_rule": ended.score_rule,
        "state": ended.state,
        "failure": ended.failure,
        "reason": ended.reason,
        "weights": ended.weights,
        "attempts": ended.attempts,
        "seconds": ended.seconds,
    }
    return {
        # What does not hold any more is said to be nothing, or W&B would go on showing it.
        "summary": _shown(about),
        "exit_code": 0 if ended.state in {"completed", "pruned"} else 1,
    }


def overview(experiment: TrackedExperiment, summary: Summary) -> dict[str, Any]:
    """What is said of an experiment; the same each time it is the same."""
    values: dict[str, Any] = {}
    for aggregate in summary.aggregates:
        values.update(_values(aggregate))
    if summary.winner is not None:
        values["winner/trial"] = summary.winner.trial
        for key, value in summary.winner.parameters.items():
            values[f"winner/{key}"] = value
    return {
        "id": sha256(f"summary of {experiment.id}".encode()).hexdigest()[:32],
        "name": _short(experiment.name),
        "config": {"experiment": experiment.name, "is_sweep": experiment.is_sweep},
        "columns": (*COUNTS, _title(summary), *INTERVAL),
        "rows": [_shown(_row(aggregate)) for aggregate in summary.aggregates],
        "figures": {name: svg for name, svg in summary.figures.items() if _is_still(svg)},
        "summary": _shown(values),
    }


def _row(aggregate: Aggregate) -> list[Any]:
    a = aggregate
    counts = [a.label, a.task, a.phase, a.n, a.planned, a.failed, a.missing]
    found = a.estimate
    if found is None:
        return [*counts, *[None] * len(INTERVAL), a.in_words]
    how = (found.level, found.method, found.seed)
    return [*counts, found.estimate, found.low, found.high, *how, a.in_words]


def _title(summary: Summary) -> str:
    """What the aggregate is called, which is the same of every label."""
    return next((a.title for a in summary.aggregates), "IQM")


def _values(aggregate: Aggregate) -> Iterator[tuple[str, float]]:
    """Single values by which a project's experiments are sorted."""
    names = (aggregate.metric, "low", "high", "n")
    for name, value in zip(names, (*aggregate.numbers.values(), aggregate.n), strict=True):
        if value is not None:
            yield f"{name}/{aggregate.label}/{aggregate.task}", value


def _shown(value: Any) -> Any:
    """The value, what is no number in the words of W&B's pages: outside of rows it drops them."""
    if isinstance(value, Mapping):
        return {str(key): _shown(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_shown(item) for item in value]
    if isinstance(value, float) and not isfinite(value):
        return "NaN" if isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    return value


def _is_still(svg: str) -> bool:
    """Whether a figure holds nothing that a browser would execute."""
    return _ACTIVE.search(svg) is None


def _short(words: str) -> str:
    """The words, or their beginning with a digest of the whole, so that none becomes another."""
    if len(words) <= LONGEST:
        return words
    return f"{words[: LONGEST - 9]} {sha256(words.encode()).hexdigest()[:8]}"


FOREIGN = (
    *("WANDB_SERVICE", "WANDB_SWEEP_ID", "WANDB_SWEEP_PARAM_PATH", "WANDB_CONFIG_PATHS"),
    *("WANDB_CONFIG", "WANDB_LAUNCH", "WANDB_LAUNCH_CONFIG_PATH", "WANDB_RUN_ID"),
    *("WANDB_RESUME", "WANDB_NOTES", "WANDB_DOCKER", "WANDB_DEBUG"),
)
"""Variables that mean somebody else's run: that of a W&B agent that started the command."""

END = 2.0
"""Seconds that the process gets to end by itself; it takes W&B's core with it."""


class WandBProcess:
    """Starts the process, asks it, kills it. One thread calls it.

    Attributes:
        life: How many processes there have been.
    """

    def __init__(self, folder: Path, timeout: float) -> None:
        """Ask nothing yet.

        Args:
            folder: For W&B's files.
            timeout: Seconds of one request of W&B's.
        """
        self.life = 0
        self._folder = folder
        self._timeout = timeout
        self._process: subprocess.Popen[bytes] | None = None
        self._pending = b""

    @property
    def alive(self) -> bool:
        """Whether there is a process that answered so far."""
        return self._process is not None and self._process.poll() is None

    def start(self, settings: Mapping[str, Any], seconds: float) -> None:
        """Start a process, instead of the one there is.

        Raises:
            TrackerUnreachable: W&B does not answer.
            TrackerRefused: It takes nothing as it is asked.
        """
        self.kill()
        # A process that was killed with its command left its own.
        shutil.rmtree(self._passing, ignore_errors=True)
        self._passing.mkdir(parents=True, exist_ok=True)
        self.life += 1
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "rlexp.trackers.wandb_process", str(self._passing)],
            env=self._environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.call({"do": "open", **settings}, seconds)

    def call(self, request: Mapping[str, Any], seconds: float) -> Any:
        """Ask, and wait for the answer.

        Raises:
            TrackerUnreachable: There is none in time, or W&B cannot be reached.
            TrackerRefused: W&B takes nothing as it is asked.
        """
        process = self._process
        if process is None or process.stdin is None:
            raise TrackerUnreachable("W&B's process is gone")
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        except OSError as error:
            raise TrackerUnreachable("W&B's process is gone") from error
        answer = json.loads(self._line(process, time.monotonic() + seconds))
        if "unreachable" in answer:
            raise TrackerUnreachable(answer["unreachable"])
        if "refused" in answer:
            raise TrackerRefused(answer["refused"])
        return answer["result"]

    def kill(self) -> None:
        """End the process, if there is one, and W&B's core with it."""
        if self._process is None:
            return
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                # What was not written yet is written on closing.
                with suppress(OSError):
                    pipe.close()
        try:
            self._process.wait(END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None
        self._pending = b""
        shutil.rmtree(self._passing, ignore_errors=True)

    @property
    def _passing(self) -> Path:
        """For files that nobody needs when the process is gone."""
        return self._folder / "passing"

    def _line(self, process: subprocess.Popen[bytes], deadline: float) -> bytes:
        assert process.stdout is not None
        output = process.stdout.fileno()
        while b"\n" not in self._pending:
            ready, _, _ = select.select([output], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TrackerUnreachable("W&B does not answer")
            read = os.read(output, 1 << 16)
            if not read:
                raise TrackerUnreachable("W&B's process ended without a word")
            self._pending += read
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in FOREIGN}
        kept.setdefault("WANDB_DATA_DIR", str(self._folder / "data"))
        kept.setdefault("WANDB_CACHE_DIR", str(self._passing / "cache"))
        # Its own error reports tell paths, versions and imported packages.
        kept["WANDB_ERROR_REPORTING"] = "false"
        kept["WANDB_HTTP_TIMEOUT"] = str(ceil(self._timeout))
        return kept


Result = TypeVar("Result")
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
        sink = WandBSink(self, found, experiment)
        sink.reach()
        return sink

    def _resolved(self, project: Path) -> ResolvedSettings:
        return resolve_settings(os.environ, project, self.mode, self.base_url, self.entity)


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
class _OpenRun:
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


class WandBSink:
    """Runs in W&B's process, which is done away with whenever something fails.

    W&B keeps what it could not upload to itself, says that all is well, and waits for ever: a
    fresh process, the step that the service itself names, and the rows beyond it mend that all.
    """

    def __init__(
        self, settings: WandB, where: ResolvedSettings, experiment: TrackedExperiment
    ) -> None:
        self._settings = settings
        self._where = where
        self._experiment = experiment
        self._client = WandBProcess(experiment.folder, settings.timeout)
        self._open: dict[str, _OpenRun] = {}

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
        opened = self._open[run.id] = _OpenRun(run, reached.step)
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
        told = {**end_request(ended), "last": opened.taken, "model": str(model) if model else None}
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

    def _reached(self, opened: _OpenRun) -> Reached:
        return Reached(step=opened.safe, kept={"online": True} if self._is_online else {})

    def _revive(self, opened: _OpenRun) -> None:
        """Open the run, unless it is: its rows that the service does not have go first."""
        self.reach()
        if opened.life == self._client.life:
            return
        opened.safe = int(self._call("begin", **begin_request(opened.tracked), after=opened.safe))
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

    def _safely(self, action: Callable[[], Result]) -> Result:
        try:
            return action()
        except RlexpError:
            self._client.kill()
            raise
