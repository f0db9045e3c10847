"""The process that runs the wandb package: answers requests (JSON lines) until its input ends."""

import json
import os
import queue
import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import psutil

from rlexp.errors import TrackerRefused, TrackerUnreachable

_STATUS = re.compile(r"(?:returned error|HTTP|failed to upload:) (\d{3})")
_MISTAKES = frozenset({"UsageError", "ValidationError", "AuthenticationError"})
"""Errors that W&B raises for wrong arguments without asking its server."""
_NO = re.compile(r"permission|denied|not found|quota|limit exceeded|deleted", re.IGNORECASE)


def upload_error(log: Path) -> str | None:
    """The reason why W&B stopped uploading, which only its log contains; None if it did not."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        if '"level":"ERROR' in line and ("fatal error" in line or "artifact" in line):
            try:
                return str(json.loads(line).get("msg"))
            except json.JSONDecodeError:
                return line
    return None


def error_answer(error: Exception, key: str | None) -> dict[str, str]:
    """The answer for an error: one line, without the key."""
    text = " ".join(str(error).split())
    if key:
        # The key is masked before the text is cut: a part of the key would not be recognised.
        text = text.replace(key, "********")
    text = re.sub(r"(?<=://)[^/@\s]*@", "", text)[:300]
    if isinstance(error, TrackerUnreachable):
        return {"unreachable": text}
    if isinstance(error, TrackerRefused):
        return {"refused": text}
    # A status that W&B still retries is no final answer.
    status = 0 if "while retrying" in text else _status(error, text)
    if status in {401, 403}:
        advice = "check the key (wandb login) and tracker.wandb.entity"
        return {"refused": f"W&B rejected the request with status {status}: {advice}: {text}"}
    if _is_final(error, text, status):
        return {"refused": f"W&B rejected the request: {text}"}
    if "did not respond in time" in text or isinstance(error, TimeoutError):
        text = "no answer in time"
    return {"unreachable": f"W&B cannot be reached: {text}"}


def _is_final(error: Exception, text: str, status: int) -> bool:
    """Whether a later try would fail in the same way."""
    if status:
        # 408 (timeout) and 429 (too many requests) ask the client to try again.
        return 400 <= status < 500 and status not in {408, 429}
    if "while retrying" in text or isinstance(error, TimeoutError):
        return False
    return type(error).__name__ in _MISTAKES or bool(_NO.search(text))


def _status(error: BaseException | None, text: str) -> int:
    """The HTTP status of the answer; 0 if there is none."""
    while error is not None:
        status = getattr(getattr(error, "response", None), "http_status", 0)
        if status:
            return int(status)
        error = error.__cause__
    match = _STATUS.search(text)
    return int(match[1]) if match else 0


MARK = "rlexp.json"
"""File in a finished folder with the step up to which all folders so far have every row."""


@dataclass(frozen=True, slots=True)
class OfflineFolders:
    """The folders in which W&B stores runs offline.

    `wandb sync` uploads every row of every folder: a row that is in two folders would be in the
    service twice. So a folder is hidden from `wandb sync` until it is finished, and the next
    folder begins with the row after its last one.

    Attributes:
        root: The folder that contains W&B's folder `wandb`.
    """

    root: Path

    @property
    def finished(self) -> Path:
        """The folder that `wandb sync` reads."""
        return self.root / "wandb"

    @property
    def unfinished(self) -> Path:
        """W&B's root folder; its contents are two levels too deep for `wandb sync` to see them."""
        folder = self.finished / "unfinished"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def forget_unfinished(self, run_id: str) -> None:
        """Remove folders that were cut off, or whose rows are in the service now."""
        for folder in self._of(self.unfinished / "wandb", run_id):
            shutil.rmtree(folder, ignore_errors=True)

    def forget_unsynced(self, run_id: str, described: str | None = None) -> None:
        """Remove finished folders that were not synced, or only those described otherwise."""
        for folder in self._of(self.finished, run_id):
            if any(folder.glob("*.synced")):
                continue
            if described is None or _read(folder / MARK).get("described") != described:
                shutil.rmtree(folder, ignore_errors=True)

    def finish(self, run_id: str, last: int, described: str) -> None:
        """Mark a folder as finished and move it to where `wandb sync` sees it."""
        mark = {"last": last, "described": described}
        for folder in self._of(self.unfinished / "wandb", run_id):
            # The mark comes first: each folder that `wandb sync` can see has one.
            (folder / MARK).write_text(json.dumps(mark) + "\n", encoding="utf-8")
            folder.rename(self._free(folder.name))

    def summary(self, run_id: str) -> dict[str, Any]:
        """The summary in the finished folders, which a further folder would replace."""
        values: dict[str, Any] = {}
        for folder in sorted(self._of(self.finished, run_id)):
            values |= _read(folder / "files" / "wandb-summary.json")
        return {key: value for key, value in values.items() if not key.startswith("_")}

    def last_step(self, run_id: str) -> int:
        """The step up to which finished folders have every row; -1 if there are none."""
        marks = [_read(folder / MARK) for folder in self._of(self.finished, run_id)]
        return max((m["last"] for m in marks if isinstance(m.get("last"), int)), default=-1)

    def _free(self, name: str) -> Path:
        """An unused path of this name: W&B's names contain whole seconds and may repeat."""
        paths = [self.finished / name, *(self.finished / f"{name}-{n}" for n in range(2, 1000))]
        return next(path for path in paths if not path.exists())

    @staticmethod
    def _of(folder: Path, run_id: str) -> Iterator[Path]:
        # A list, because the callers rename and remove folders while they iterate.
        yield from list(folder.glob(f"*run-*-{run_id}*"))


def _read(path: Path) -> dict[str, Any]:
    """The JSON object in a file; empty where there is none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


Resume = Literal["allow"] | None
STEP = "global_step"
"""The metric with environment steps, under the name that other tools use."""
MEAN_RETURN = "eval/mean_reward"
"""The metric of evaluations whose last and best value the table of runs shows."""
LAST_STEP_QUERY = """
query RunResumeStatus($project: String, $entity: String, $name: String!) {
  model(name: $project, entityName: $entity) {
    bucket(name: $name, missingOk: true) { historyLineCount historyTail }
  }
}
"""
PRIVATE_SETTINGS: dict[str, Any] = {
    "silent": True,
    "console": "off",
    "symlink": False,
    "program": "rlexp",
    "save_code": False,
    "disable_code": True,
    "disable_git": True,
    "disable_job_creation": True,
    "label_disable": True,
    "x_save_requirements": False,
    "x_disable_meta": True,
    "x_disable_machine_info": True,
    "x_disable_stats": True,
}
"""W&B records no code, command line, packages or machine data, and prints nothing."""


class WandBSession:
    """Opens runs, logs rows, and checks that the service has stored them."""

    def __init__(self, folder: str) -> None:
        """Import wandb with `folder` for its temporary files."""
        # wandb chooses its temporary folder while it is imported.
        tempfile.tempdir = folder
        import wandb

        tempfile.tempdir = None
        self._wandb = wandb
        self._live: dict[str, tuple[Any, str]] = {}
        self._settings: dict[str, Any] = {}

    @property
    def key(self) -> str | None:
        """W&B's API key, which no message may contain."""
        key = self._wandb.setup().settings.api_key
        return str(key) if key else None

    def open(self, request: dict[str, Any]) -> None:
        """Find the API key, and check it with the service."""
        self._settings = request
        self._folders = OfflineFolders(Path(os.environ.get("WANDB_DIR") or request["folder"]))
        settings = self._wandb.Settings(
            silent=True,
            mode=request["mode"],
            base_url=request["base_url"],
            root_dir=str(self._folders.unfinished),
        )
        self._wandb.setup(settings)
        if not self._is_online:
            return
        if not self._wandb.login(prompt=False, verify=False):
            raise TrackerRefused(
                "W&B has no key: run wandb login, set WANDB_API_KEY, or use tracker.wandb.mode=offline"
            )
        self._api().authenticate()

    def begin(self, request: dict[str, Any]) -> int:
        """Open a run; returns the step up to which its rows are stored."""
        self._folders.forget_unfinished(request["id"])
        if not self._is_online:
            # Folders that are still here are written again, with the present description.
            self._folders.forget_unsynced(request["id"], _described(request))
        stored_step = self._stored_step(request["id"]) if self._is_online else -1
        # Resumed without any row, W&B takes the step from the summary and drops smaller steps.
        run = self._init(
            request, request["job_type"], request["group"], "allow" if stored_step >= 0 else None
        )
        run.define_metric(STEP)
        run.define_metric("*", step_metric=STEP)
        run.define_metric(MEAN_RETURN, step_metric=STEP, summary="last,max")
        self._use(run, request["configuration"])
        self._live[request["id"]] = run, _described(request)
        if not self._is_online:
            run.summary.update(self._folders.summary(request["id"]))
        if not self._is_online:
            return max(int(request["after"]), self._folders.last_step(request["id"]))
        # Rows that appeared meanwhile were uploaded by another process: they would mix with ours.
        if stored_step < 0 and self._stored_step(request["id"]) >= 0:
            raise TrackerUnreachable("another process is still uploading this run to W&B")
        return int(run.starting_step) - 1 if stored_step >= 0 else -1

    def push(self, request: dict[str, Any]) -> None:
        """Log each row as one history line in order, so that a repeated row replaces itself."""
        run, _ = self._live[request["id"]]
        for step, when, metrics in request["rows"]:
            run.log({**metrics, STEP: step, "_timestamp": when}, step=step, commit=True)

    def end(self, request: dict[str, Any]) -> None:
        """Write the end of a run, and wait until the service has stored everything."""
        run, described = self._live.pop(request["id"])
        run.summary.update(request["summary"])
        if request["model"] is not None:
            model = self._wandb.Artifact(f"model-{request['id']}", type="model")
            model.add_file(request["model"], name="model.zip", skip_cache=True)
            run.log_artifact(model)
        self._finish(run, request["exit_code"], request["last"], described)

    def _use(self, run: Any, artifact: Mapping[str, str]) -> None:
        """Log a configuration as an input of a run.

        Artifacts of equal content are one version in the service, so that the same configuration
        connects its runs with the report.
        """
        configuration = self._wandb.Artifact(artifact["name"], type="configuration")
        with configuration.new_file("configuration.json") as file:
            file.write(artifact["content"])
        # The public `use_artifact` refuses to work offline, and waits for the service online.
        run._log_artifact(  # noqa: SLF001
            configuration, is_user_created=True, use_after_commit=True
        )

    def _log_report(self, run: Any, name: str, files: Mapping[str, str]) -> None:
        """Log the files of a report as the output of the summary run."""
        if files:
            report = self._wandb.Artifact(name, type="report")
            for path_in_report, path in files.items():
                report.add_file(path, name=path_in_report, skip_cache=True)
            run.log_artifact(report)

    def summarise(self, request: dict[str, Any]) -> None:
        """Add the current results to the summary run; earlier results stay in its history."""
        self._folders.forget_unfinished(request["id"])
        self._folders.forget_unsynced(request["id"])
        run = self._init(request, "summary", request["name"], "allow" if self._is_online else None)
        table = self._wandb.Table(request["columns"], request["rows"], allow_mixed_types=True)
        scores = self._wandb.Table(
            request["score_columns"], request["scores"], allow_mixed_types=True
        )
        figures = {
            f"figures/{name}": self._wandb.Html(svg, inject=False, data_is_not_path=True)
            for name, svg in request["figures"].items()
        }
        # Steps must grow across offline folders too, which do not know of each other.
        step = max(int(run.starting_step), int(time.time()))
        run.log({"aggregates": table, "scores": scores, **figures}, step=step, commit=True)
        for configuration in request["configurations"]:
            self._use(run, configuration)
        self._log_report(run, request["report_name"], request["report"])
        run.summary.update(request["summary"])
        self._finish(run, 0, step)

    @property
    def _is_online(self) -> bool:
        return bool(self._settings["mode"] == "online")

    def _init(self, request: Mapping[str, Any], job_type: str, group: str, resume: Resume) -> Any:
        settings = self._wandb.Settings(
            run_id=request["id"],
            run_name=request["name"],
            run_group=group,
            run_job_type=job_type,
            run_notes=request.get("notes"),
            run_tags=tuple(dict.fromkeys([*self._settings["tags"], *request["tags"]])),
            project=self._settings["project"],
            entity=self._settings["entity"],
            resume=resume,
            reinit="create_new",
            init_timeout=self._settings["timeout"],
            finish_timeout=self._settings["timeout"],
            finish_timeout_raises=True,
            **PRIVATE_SETTINGS,
        )
        return self._wandb.init(config=request["config"], settings=settings)

    def _finish(self, run: Any, exit_code: int, last: int, described: str = "") -> None:
        """Finish a run; then check that every row arrived, because W&B does not report it.

        Raises:
            TrackerUnreachable: Some rows did not arrive.
        """
        log, run_id = Path(run.settings.log_internal), run.settings.run_id
        run.finish(exit_code=exit_code)
        if not self._is_online:
            self._wait_until_closed(run_id)
            self._folders.finish(run_id, last, described)
            return
        if trouble := upload_error(log):
            raise RuntimeError(trouble)
        deadline = time.monotonic() + self._settings["timeout"]
        while (stored_step := self._stored_step(run_id)) < last:
            if time.monotonic() > deadline:
                raise TrackerUnreachable(f"W&B has rows up to step {stored_step}, not {last}")
            time.sleep(0.2)
        # The service has all rows now: a later `wandb sync` of offline rows would repeat them.
        self._folders.forget_unfinished(run_id)
        self._folders.forget_unsynced(run_id)

    def _wait_until_closed(self, run_id: str) -> None:
        """Wait until W&B's core has closed the files of a run, which is after `finish` returns.

        Raises:
            TrackerUnreachable: The files stay open.
        """
        deadline = time.monotonic() + self._settings["timeout"]
        while any(
            run_id in file.path and file.path.endswith(".wandb")
            for child in psutil.Process().children(recursive=True)
            for file in _open_files(child)
        ):
            if time.monotonic() > deadline:
                raise TrackerUnreachable("W&B does not close its files")
            time.sleep(0.02)

    def _api(self) -> Any:
        """W&B's internal client for GraphQL queries."""
        from wandb.apis.public.service_api import ServiceApi

        settings = self._wandb.setup().settings.model_copy()
        return ServiceApi(settings=settings, timeout=self._settings["timeout"])

    def _stored_step(self, run_id: str) -> int:
        """The last step of which the service has a row; -1 if it has none."""
        variables = {
            "project": self._settings["project"],
            "entity": self._settings["entity"],
            "name": run_id,
        }
        answer: dict[str, Any] = self._api().execute_graphql(LAST_STEP_QUERY, variables)
        bucket = (answer.get("model") or {}).get("bucket") or {}
        tail = json.loads(bucket.get("historyTail") or "[]")
        if not bucket.get("historyLineCount") or not tail:
            return -1
        line = json.loads(tail[-1]) if isinstance(tail[-1], str) else tail[-1]
        return int(line.get("_step", -1))


def _described(request: Mapping[str, Any]) -> str:
    """Changes whenever a run is shown with another name, group, tag or configuration."""
    shown = [request[key] for key in ("name", "group", "job_type", "tags", "config")]
    return sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()


def _open_files(process: Any) -> list[Any]:
    try:
        return list(process.open_files())
    except psutil.Error:
        return []


def _handlers(session: WandBSession) -> dict[str, Callable[[dict[str, Any]], Any]]:
    return {
        "open": session.open,
        "begin": session.begin,
        "push": session.push,
        "end": session.end,
        "summarise": session.summarise,
    }


def main() -> None:
    """Answer requests until the input ends; then end at once, even while W&B is uploading."""
    requests, replies = os.dup(0), os.dup(1)
    # W&B writes to the standard streams; only copies of them carry requests and answers.
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    requests_queue: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_work, args=(requests_queue, replies), daemon=True).start()
    with os.fdopen(requests, "rb") as lines:
        for line in lines:
            requests_queue.put(json.loads(line))
    # W&B's core would continue to upload for a second, at the same time as the next process.
    for child in psutil.Process().children(recursive=True):
        child.kill()
    # `os._exit` calls no exit handlers: that of the wandb package waits for its service process.
    os._exit(0)


def _work(requests: "queue.Queue[dict[str, Any]]", replies: int) -> None:
    session: WandBSession | None = None
    while True:
        request = requests.get()
        try:
            session = session or WandBSession(sys.argv[1])
            answer = {"result": _handlers(session)[request.pop("do")](request)}
        except Exception as error:  # noqa: BLE001 any error of W&B is an answer
            answer = error_answer(error, session.key if session else None)
        os.write(replies, json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    main()
