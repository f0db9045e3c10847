"""The Weights & Biases tracker: online, offline or disabled.

The wandb package runs in a separate process (`wandb_process`), because only killing that process
stops it reliably. This module resolves W&B's settings, starts and supervises the process, and uploads
again what a killed process lost. `wandb_requests` builds the requests.
"""

import json
import os
import re
import select
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from configparser import ConfigParser, Error
from contextlib import suppress
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from annotated_types import Ge, Gt, MaxLen, MinLen

from rlexp.errors import RlexpError, TrackerRefused, TrackerUnreachable
from rlexp.trackers import (
    ExperimentSummary,
    MetricRow,
    RunEnd,
    SyncPosition,
    TrackedExperiment,
    TrackedRun,
    TrackerConnection,
)
from rlexp.trackers.viewing import missing_package, shown_path
from rlexp.trackers.wandb_requests import begin_request, end_request, summary_request

CLOUD = "https://api.wandb.ai"
MODES = {"run": "online", "shared": "online", "dryrun": "offline"}
"""Other names of W&B's modes."""


@dataclass(frozen=True, slots=True)
class ResolvedSettings:
    """Settings of W&B, from rlexp's configuration, environment variables or W&B's files.

    Attributes:
        mode: `online`, `offline`, `disabled`, or an unknown value of WANDB_MODE.
        base_url: The server.
        entity: The user or team; None: the default of the key.
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
    default_mode: str = "online",
) -> ResolvedSettings:
    """Each setting from the first source that has it: rlexp, a variable, W&B's files, the default.

    Args:
        environment: Environment variables.
        folder: The project's folder.
        mode: The setting `tracker.wandb.mode`.
        base_url: The setting `tracker.wandb.base_url`.
        entity: The setting `tracker.wandb.entity`.
        default_mode: The mode where nothing names one.
    """
    files = _files(environment, folder)

    def resolve(setting: str | None, name: str) -> str | None:
        return setting or environment.get(f"WANDB_{name.upper()}") or files.get(name) or None

    chosen = resolve(mode, "mode") or default_mode
    address = resolve(base_url, "base_url") or CLOUD
    return ResolvedSettings(
        MODES.get(chosen, chosen), address.rstrip("/"), resolve(entity, "entity")
    )


def _files(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Settings in W&B's files; those of the project override those of the user."""
    user_folder = Path(environment.get("WANDB_CONFIG_DIR") or "~/.config/wandb").expanduser()
    project_folder = Path(environment.get("WANDB_DIR") or folder)
    project_settings = project_folder / (
        ".wandb" if (project_folder / ".wandb").is_dir() else "wandb"
    )
    settings: dict[str, str] = {}
    for path in (user_folder / "settings", project_settings / "settings"):
        # W&B's files may contain % in values.
        parser = ConfigParser(interpolation=None)
        try:
            parser.read_string(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, Error):
            continue
        if parser.has_section("default"):
            settings.update(parser.items("default"))
    return settings


FOREIGN = (
    *("WANDB_SERVICE", "WANDB_SWEEP_ID", "WANDB_SWEEP_PARAM_PATH", "WANDB_CONFIG_PATHS"),
    *("WANDB_CONFIG", "WANDB_LAUNCH", "WANDB_LAUNCH_CONFIG_PATH", "WANDB_RUN_ID"),
    *("WANDB_RESUME", "WANDB_NOTES", "WANDB_DOCKER", "WANDB_DEBUG"),
)
"""Variables that belong to another run, such as that of a W&B agent that started this command."""

END = 2.0
"""Seconds that the process gets to end by itself and to stop W&B's core process."""


class WandBProcess:
    """Starts the process of W&B, sends it requests, and kills it. Used by one thread.

    Attributes:
        life: Number of processes started so far.
    """

    def __init__(self, folder: Path, timeout: float) -> None:
        """Prepare; no process is started yet.

        Args:
            folder: The folder for W&B's files.
            timeout: Seconds of one HTTP request of W&B.
        """
        self.life = 0
        self._folder = folder
        self._timeout = timeout
        self._process: subprocess.Popen[bytes] | None = None
        self._pending = b""

    @property
    def alive(self) -> bool:
        """Whether the process exists and has not ended."""
        return self._process is not None and self._process.poll() is None

    def start(self, settings: Mapping[str, Any], seconds: float) -> None:
        """Start a process; an existing one is killed first.

        Raises:
            TrackerUnreachable: W&B does not answer.
            TrackerRefused: W&B rejects the settings or the key.
        """
        self.kill()
        # A process that was killed together with its command left temporary files.
        shutil.rmtree(self._temporary, ignore_errors=True)
        self._temporary.mkdir(parents=True, exist_ok=True)
        self.life += 1
        self._process = subprocess.Popen(
            # `-P` keeps the current folder out of `sys.path`: a file json.py there is never
            # executed.
            [sys.executable, "-P", "-m", "rlexp.trackers.wandb_process", str(self._temporary)],
            env=self._environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # In its own session the process gets no Ctrl-C from the terminal; `kill` ends it.
            start_new_session=True,
        )
        self.call({"do": "open", **settings}, seconds)

    def call(self, request: Mapping[str, Any], seconds: float) -> Any:
        """Send a request and return its result.

        Raises:
            TrackerUnreachable: No answer came in time, or W&B cannot be reached.
            TrackerRefused: W&B rejects the request.
        """
        process = self._process
        if process is None or process.stdin is None:
            raise TrackerUnreachable("the W&B process has ended")
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        except OSError as error:
            raise TrackerUnreachable("the W&B process has ended") from error
        answer = json.loads(self._line(process, time.monotonic() + seconds))
        if "unreachable" in answer:
            raise TrackerUnreachable(answer["unreachable"])
        if "refused" in answer:
            raise TrackerRefused(answer["refused"])
        return answer["result"]

    def kill(self) -> None:
        """End the process, if there is one, together with W&B's core process."""
        if self._process is None:
            return
        # The end of its input asks the process to end by itself.
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                # Closing flushes the buffer, which fails if the process is dead.
                with suppress(OSError):
                    pipe.close()
        try:
            self._process.wait(END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None
        self._pending = b""
        shutil.rmtree(self._temporary, ignore_errors=True)

    @property
    def _temporary(self) -> Path:
        """The folder of temporary files, which is deleted with the process."""
        return self._folder / "passing"

    def _line(self, process: subprocess.Popen[bytes], deadline: float) -> bytes:
        assert process.stdout is not None
        output = process.stdout.fileno()
        while b"\n" not in self._pending:
            ready, _, _ = select.select([output], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TrackerUnreachable("W&B does not answer")
            # A buffered read could take bytes of which `select` then knows nothing.
            read = os.read(output, 1 << 16)
            if not read:
                raise TrackerUnreachable("the W&B process ended without an answer")
            self._pending += read
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in FOREIGN}
        kept.setdefault("WANDB_DATA_DIR", str(self._folder / "data"))
        kept.setdefault("WANDB_CACHE_DIR", str(self._temporary / "cache"))
        # W&B's error reports contain paths, versions and imported packages.
        kept["WANDB_ERROR_REPORTING"] = "false"
        kept["WANDB_HTTP_TIMEOUT"] = str(ceil(self._timeout))
        return kept


Result = TypeVar("Result")
BATCH = 250
"""Rows in one request."""
START = 90.0
"""Seconds in which the process must have imported wandb, on a machine that is busy training."""
SLACK = 15.0
"""Seconds added to W&B's timeouts before the process counts as hung."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WandB:
    """Runs of a W&B project: a group for each label, a summary run for each experiment.

    Attributes:
        project: The project there.
        entity: The user or team; null: from W&B's settings, else the default of the key.
        mode: Null: from W&B's settings (WANDB_MODE, `wandb offline`), else online.
        base_url: The server; null: from W&B's settings, else W&B's cloud.
        models: Whether the final models are uploaded.
        tags: Tags of every run.
        timeout: Seconds within which W&B must answer.
        wait: Seconds that a command waits at its end.
        required: Whether a command refuses to start while W&B cannot be reached.
    """

    package: ClassVar[str] = "wandb"

    project: Annotated[str, MinLen(1), MaxLen(128)] = "rlexp"
    entity: Annotated[str, MinLen(1)] | None = None
    mode: Literal["online", "offline", "disabled"] | None = None
    base_url: Annotated[str, MinLen(1)] | None = None
    models: bool = False
    tags: tuple[Annotated[str, MinLen(1), MaxLen(64)], ...] = ()
    timeout: Annotated[float, Gt(0)] = 30.0
    wait: Annotated[float, Ge(0)] = 10.0
    required: bool = False

    def destination(self, project: Path) -> str:
        """The project in the service, or an empty text; see `Tracker.destination`.

        Online and offline modes have the same destination, so that offline rows continue after
        the rows that were uploaded online.
        """
        settings = self._resolved(project)
        if settings.mode == "disabled":
            return ""
        name = f"{settings.entity}/{self.project}" if settings.entity else self.project
        return f"W&B project {name} at {settings.address}"

    def where_to_look(self, project: Path, folder: Path) -> str:
        """The page of the project; offline, the command that uploads the local data."""
        settings = self._resolved(project)
        if settings.mode == "offline":
            local = folder / "wandb"
            if not has_unsynced(local):
                return ""
            command = shlex.join(["wandb", "sync", shown_path(local, project)])
            server = "" if self.base_url is None else f"WANDB_BASE_URL={settings.address} "
            return f"the data is local (mode offline); to upload it: {server}{command}"
        site = "https://wandb.ai" if settings.base_url == CLOUD else settings.address
        if settings.entity is None:
            # Only the service knows the default entity of the key.
            return f"project {self.project} at {site}"
        return f"{site}/{settings.entity}/{self.project}"

    def earlier_settings(
        self, project: Path, kept: Sequence[Mapping[str, Any]]
    ) -> Mapping[str, str]:
        """Mode `offline`, if an earlier command was given it and nothing names a mode now.

        Data that a user kept local must not be uploaded by a command that names no tracker.
        """
        chosen = resolve_settings(os.environ, project, self.mode, None, None, default_mode="")
        was_online = any(values.get("online") for values in kept)
        return {} if was_online or chosen.mode else {"mode": "offline"}

    def open(self, experiment: TrackedExperiment) -> TrackerConnection:
        """Start W&B's process and check the key; see `Tracker.open`."""
        settings = self._resolved(experiment.project)
        if settings.mode == "disabled":
            return _Disabled()
        if settings.mode not in {"online", "offline"}:
            raise TrackerRefused(
                f"WANDB_MODE is '{settings.mode}': choose online, offline or disabled"
            )
        if (refusal := missing_package(self)) is not None:
            raise refusal
        sink = WandBSink(self, settings, experiment)
        sink.reach()
        return sink

    def _resolved(self, project: Path) -> ResolvedSettings:
        return resolve_settings(os.environ, project, self.mode, self.base_url, self.entity)


def has_unsynced(folder: Path) -> bool:
    """Whether `wandb sync` would upload something from a folder of offline runs."""
    return any(
        not log.with_suffix(".wandb.synced").exists()
        for log in folder.glob("offline-run-*/*.wandb")
    )


class _Disabled:
    """The sink of mode `disabled`: uploads nothing and reports every row as stored."""

    def begin(self, run: TrackedRun, reached: SyncPosition) -> SyncPosition:  # noqa: ARG002
        return reached

    def push(self, run: TrackedRun, rows: Sequence[MetricRow]) -> SyncPosition:  # noqa: ARG002
        return SyncPosition(step=rows[-1].step)

    def end(self, run: TrackedRun, ended: RunEnd) -> SyncPosition:  # noqa: ARG002
        return SyncPosition(step=ended.step)

    def summarise(self, summary: ExperimentSummary) -> None:
        pass

    def close(self) -> None:
        pass


@dataclass(slots=True)
class _OpenWandbRun:
    """A run that is open here.

    Attributes:
        tracked: The run.
        safe: The step up to which W&B has stored every row, online or in finished folders.
        rows: Rows after `safe`, which are lost if W&B's process dies.
        life: The number of the process in which the run is open.
    """

    tracked: TrackedRun
    safe: int
    rows: list[MetricRow] = field(default_factory=list)
    life: int = -1

    @property
    def taken(self) -> int:
        return self.rows[-1].step if self.rows else self.safe


class WandBSink:
    """Uploads runs through W&B's process, which is killed whenever something fails.

    After a failed upload, the wandb package reports success, keeps the data and waits for ever.
    The remedy is always the same: start a new process, ask the service for its last step, and
    push the rows after that step again.
    """

    def __init__(
        self, settings: WandB, where: ResolvedSettings, experiment: TrackedExperiment
    ) -> None:
        self._settings = settings
        self._where = where
        self._experiment = experiment
        self._process = WandBProcess(experiment.folder, settings.timeout)
        self._open: dict[str, _OpenWandbRun] = {}

    def reach(self) -> None:
        """Start the process unless it exists; raises the same errors as `Tracker.open`."""
        if not self._process.alive:
            settings, where = self._settings, self._where
            request = {
                "project": settings.project,
                "entity": where.entity,
                "mode": where.mode,
                "base_url": where.base_url,
                "tags": settings.tags,
                "timeout": settings.timeout,
                "folder": str(self._experiment.folder),
            }
            self._safely(lambda: self._process.start(request, START + settings.timeout))

    def begin(self, run: TrackedRun, reached: SyncPosition) -> SyncPosition:
        """See `TrackerConnection.begin`. Online the service knows the position; offline `reached` holds it."""
        if not self._is_online and reached.kept.get("online"):
            raise TrackerUnreachable(
                "W&B has rows of a run that began online, and their number is unknown offline: "
                "run rlexp sync online first"
            )
        if run.id in self._open:
            # W&B describes a run only when it is opened. Other open runs are opened again, too.
            self._process.kill()
        opened = self._open[run.id] = _OpenWandbRun(run, reached.step)
        self._revive(opened)
        return self._reached(opened)

    def push(self, run: TrackedRun, rows: Sequence[MetricRow]) -> SyncPosition:
        """See `TrackerConnection.push`. Rows are safe only after `end`."""
        opened = self._open[run.id]
        self._revive(opened)
        new_rows = [row for row in rows if row.step > opened.taken]
        self._log(run, new_rows)
        opened.rows += new_rows
        return self._reached(opened)

    def end(self, run: TrackedRun, ended: RunEnd) -> SyncPosition:
        """See `TrackerConnection.end`. Waits until W&B has stored every row."""
        opened = self._open[run.id]
        self._revive(opened)
        model = ended.files.get("model.zip") if self._settings.models else None
        request = {
            **end_request(ended),
            "last": opened.taken,
            "model": str(model) if model else None,
        }
        self._call("end", id=run.id, **request)
        # Only now: if the call fails, it is repeated and needs the rows that are not stored yet.
        del self._open[run.id]
        return SyncPosition(step=opened.taken)

    def summarise(self, summary: ExperimentSummary) -> None:
        """See `TrackerConnection.summarise`."""
        self.reach()
        self._call("summarise", **summary_request(self._experiment, summary))

    def close(self) -> None:
        """See `TrackerConnection.close`."""
        self._process.kill()
        self._open.clear()

    @property
    def _is_online(self) -> bool:
        return self._where.mode == "online"

    def _reached(self, opened: _OpenWandbRun) -> SyncPosition:
        return SyncPosition(step=opened.safe, kept={"online": True} if self._is_online else {})

    def _revive(self, opened: _OpenWandbRun) -> None:
        """Open the run in the current process; rows that a killed process lost are pushed again."""
        self.reach()
        if opened.life == self._process.life:
            return
        opened.safe = int(
            self._call(
                "begin", **begin_request(self._experiment, opened.tracked), after=opened.safe
            )
        )
        opened.rows = [row for row in opened.rows if row.step > opened.safe]
        opened.life = self._process.life
        self._log(opened.tracked, opened.rows)

    def _log(self, run: TrackedRun, rows: Sequence[MetricRow]) -> None:
        for start in range(0, len(rows), BATCH):
            batch = [(r.step, r.time, dict(r.metrics)) for r in rows[start : start + BATCH]]
            self._call("push", id=run.id, rows=batch)

    def _call(self, what: str, **request: Any) -> Any:
        # Twice the timeout: `begin` sends two requests, `end` uploads and then asks for the step.
        seconds = 2 * self._settings.timeout + SLACK
        return self._safely(lambda: self._process.call({"do": what, **request}, seconds))

    def _safely(self, action: Callable[[], Result]) -> Result:
        try:
            return action()
        except RlexpError:
            # After any failure the state of the wandb package is unknown.
            self._process.kill()
            raise
