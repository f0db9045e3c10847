"""The process in which W&B lives: it is asked by JSON lines, and ends with its input."""

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
from pathlib import Path
from typing import Any, Literal

import psutil

from rlexp.errors import TrackerRefused, TrackerUnreachable

_STATUS = re.compile(r"(?:returned error|HTTP|failed to upload:) (\d{3})")
_MISTAKES = frozenset({"UsageError", "ValidationError", "AuthenticationError"})
"""W&B's errors of what it is given, which it found without asking anybody."""
_NO = re.compile(r"permission|denied|not found|quota|limit exceeded|deleted", re.IGNORECASE)


def upload_error(log: Path) -> str | None:
    """Why W&B stopped to upload, if it did: only its log says so."""
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
    """The answer that stands for an error: one line, without the key."""
    text = " ".join(str(error).split())
    if key:
        text = text.replace(key, "********")
    text = re.sub(r"(?<=://)[^/@\s]*@", "", text)[:300]
    if isinstance(error, TrackerUnreachable):
        return {"unreachable": text}
    if isinstance(error, TrackerRefused):
        return {"refused": text}
    status = 0 if "while retrying" in text else _status(error, text)
    if status in {401, 403}:
        asked = "check the key (wandb login) and tracker.wandb.entity"
        return {"refused": f"W&B refuses with status {status}: {asked}: {text}"}
    if _is_final(error, text, status):
        return {"refused": f"W&B refuses: {text}"}
    if "did not respond in time" in text or isinstance(error, TimeoutError):
        text = "no answer in time"
    return {"unreachable": f"W&B cannot be reached: {text}"}


def _is_final(error: Exception, text: str, status: int) -> bool:
    """Whether asking again would change nothing."""
    if status:
        return 400 <= status < 500 and status not in {408, 429}
    if "while retrying" in text or isinstance(error, TimeoutError):
        return False
    return type(error).__name__ in _MISTAKES or bool(_NO.search(text))


def _status(error: BaseException | None, text: str) -> int:
    """The status of the answer, where one can be found."""
    while error is not None:
        status = getattr(getattr(error, "response", None), "http_status", 0)
        if status:
            return int(status)
        error = error.__cause__
    found = _STATUS.search(text)
    return int(found[1]) if found else 0


MARK = "rlexp.json"
"""In a finished folder: the step up to which it and those before it have every row."""


@dataclass(frozen=True, slots=True)
class OfflineFolders:
    """The folders below one.

    `wandb sync` appends whatever a folder holds: a row in two of them is in the service twice. So
    a folder is kept out of its sight until it is finished, and the next begins where it ends.

    Attributes:
        root: Holds W&B's own folder, `wandb`.
    """

    root: Path

    @property
    def finished(self) -> Path:
        """Where `wandb sync` looks."""
        return self.root / "wandb"

    @property
    def unfinished(self) -> Path:
        """What W&B is told to be the root; two levels down, `wandb sync` does not look."""
        folder = self.finished / "unfinished"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def forget_unfinished(self, run_id: str) -> None:
        """Remove what was cut short, or is in the service now."""
        for folder in self._of(self.unfinished / "wandb", run_id):
            shutil.rmtree(folder, ignore_errors=True)

    def forget_unsynced(self, run_id: str) -> None:
        """Remove what was written offline and did not get any further."""
        for folder in self._of(self.finished, run_id):
            if not any(folder.glob("*.synced")):
                shutil.rmtree(folder, ignore_errors=True)

    def finish(self, run_id: str, last: int) -> None:
        """Show a finished folder to `wandb sync`."""
        for folder in self._of(self.unfinished / "wandb", run_id):
            (folder / MARK).write_text(json.dumps({"last": last}) + "\n", encoding="utf-8")
            folder.rename(self._free(folder.name))

    def last_step(self, run_id: str) -> int:
        """The step up to which finished folders have every row; -1 where there are none."""
        last = -1
        for folder in self._of(self.finished, run_id):
            try:
                known = json.loads((folder / MARK).read_text(encoding="utf-8"))
                last = max(last, int(known["last"]))
            except (OSError, ValueError, KeyError, TypeError):
                continue
        return last

    def _free(self, name: str) -> Path:
        """A path of that name, or of one like it: W&B's names hold seconds and no less."""
        paths = [self.finished / name, *(self.finished / f"{name}-{n}" for n in range(2, 1000))]
        return next(path for path in paths if not path.exists())

    @staticmethod
    def _of(folder: Path, run_id: str) -> Iterator[Path]:
        yield from list(folder.glob(f"*run-*-{run_id}*"))


Resume = Literal["allow"] | None
STEP = "global_step"
"""Environment steps, under the name that other tools use."""
HELD = """
query RunResumeStatus($project: String, $entity: String, $name: String!) {
  model(name: $project, entityName: $entity) {
    bucket(name: $name, missingOk: true) { historyLineCount historyTail }
  }
}
"""
SECLUDED: dict[str, Any] = {
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
"""No code, no command line, no packages, nothing of the machine, and not a word on the screen."""


class WandBSession:
    """Opens runs, logs, and makes sure that the service has what was logged."""

    def __init__(self, folder: str) -> None:
        """Import W&B, which keeps passing files where it finds itself when it is imported."""
        tempfile.tempdir = folder
        import wandb

        tempfile.tempdir = None
        self._wandb = wandb
        self._live: dict[str, Any] = {}
        self._told: dict[str, Any] = {}

    @property
    def key(self) -> str | None:
        """The key that W&B found, which no message may hold."""
        found = self._wandb.setup().settings.api_key
        return str(found) if found else None

    def open(self, told: dict[str, Any]) -> None:
        """Find the key, and show it to the service."""
        self._told = told
        self._folders = OfflineFolders(Path(os.environ.get("WANDB_DIR") or told["folder"]))
        settings = self._wandb.Settings(
            silent=True,
            mode=told["mode"],
            base_url=told["base_url"],
            root_dir=str(self._folders.unfinished),
        )
        self._wandb.setup(settings)
        if not self._is_online:
            return
        if not self._wandb.login(prompt=False, verify=False):
            raise TrackerRefused(
                "W&B has no key: wandb login, or set WANDB_API_KEY, or tracker.wandb.mode=offline"
            )
        self._api().authenticate()

    def begin(self, told: dict[str, Any]) -> int:
        """Open a run; returns the step up to which its rows are safe."""
        self._folders.forget_unfinished(told["id"])
        held = self._held(told["id"]) if self._is_online else -1
        # Without rows there, W&B may still take its steps from the summary and drop ours.
        run = self._init(told, told["job_type"], told["group"], "allow" if held >= 0 else None)
        run.define_metric(STEP)
        run.define_metric("*", step_metric=STEP)
        self._live[told["id"]] = run
        if not self._is_online:
            return max(int(told["after"]), self._folders.last_step(told["id"]))
        if held < 0 and self._held(told["id"]) >= 0:
            raise TrackerUnreachable("a process that was killed still uploads to W&B")
        return int(run.starting_step) - 1 if held >= 0 else -1

    def push(self, told: dict[str, Any]) -> None:
        """Log rows; a line each, in order: what is sent again falls on the same lines."""
        run = self._live[told["id"]]
        for step, when, metrics in told["rows"]:
            run.log({**metrics, STEP: step, "_timestamp": when}, step=step, commit=True)

    def end(self, told: dict[str, Any]) -> None:
        """Say how a run stands, and wait until the service has it all."""
        run = self._live.pop(told["id"])
        run.summary.update(told["summary"])
        if told["model"] is not None:
            model = self._wandb.Artifact(f"model-{told['id']}", type="model")
            model.add_file(told["model"], name="model.zip", skip_cache=True)
            run.log_artifact(model)
        self._finish(run, told["exit_code"], told["last"])

    def summarise(self, told: dict[str, Any]) -> None:
        """Say anew what the summary run shows; what it showed before is its history."""
        self._folders.forget_unfinished(told["id"])
        self._folders.forget_unsynced(told["id"])
        run = self._init(told, "summary", told["name"], "allow" if self._is_online else None)
        table = self._wandb.Table(told["columns"], told["rows"], allow_mixed_types=True)
        figures = {
            f"figures/{name}": self._wandb.Html(svg, inject=False, data_is_not_path=True)
            for name, svg in told["figures"].items()
        }
        # Steps must grow, also from one folder to the next, which know nothing of each other.
        step = max(int(run.starting_step), int(time.time()))
        run.log({"aggregates": table, **figures}, step=step, commit=True)
        run.summary.update(told["summary"])
        self._finish(run, 0, step)

    @property
    def _is_online(self) -> bool:
        return bool(self._told["mode"] == "online")

    def _init(self, told: Mapping[str, Any], job_type: str, group: str, resume: Resume) -> Any:
        settings = self._wandb.Settings(
            run_id=told["id"],
            run_name=told["name"],
            run_group=group,
            run_job_type=job_type,
            run_tags=tuple(self._told["tags"]),
            project=self._told["project"],
            entity=self._told["entity"],
            resume=resume,
            reinit="create_new",
            init_timeout=self._told["timeout"],
            finish_timeout=self._told["timeout"],
            finish_timeout_raises=True,
            **SECLUDED,
        )
        return self._wandb.init(config=told["config"], settings=settings)

    def _finish(self, run: Any, exit_code: int, last: int) -> None:
        """Finish a run; then look whether what was logged arrived, for W&B does not say.

        Raises:
            TrackerUnreachable: Not all arrived.
        """
        log, run_id = Path(run.settings.log_internal), run.settings.run_id
        run.finish(exit_code=exit_code)
        if not self._is_online:
            self._wait_until_closed(run_id)
            self._folders.finish(run_id, last)
            return
        if trouble := upload_error(log):
            raise RuntimeError(trouble)
        deadline = time.monotonic() + self._told["timeout"]
        while (held := self._held(run_id)) < last:
            if time.monotonic() > deadline:
                raise TrackerUnreachable(f"W&B has rows up to step {held}, not {last}")
            time.sleep(0.2)
        # What was written offline, and not synced, would come there twice.
        self._folders.forget_unfinished(run_id)
        self._folders.forget_unsynced(run_id)

    def _wait_until_closed(self, run_id: str) -> None:
        """Wait until W&B's core has closed the files of a run: `finish` returns before.

        Raises:
            TrackerUnreachable: It does not.
        """
        import psutil

        deadline = time.monotonic() + self._told["timeout"]
        while any(
            run_id in file.path and file.path.endswith(".wandb")
            for child in psutil.Process().children(recursive=True)
            for file in _open_files(child)
        ):
            if time.monotonic() > deadline:
                raise TrackerUnreachable("W&B does not close its files")
            time.sleep(0.02)

    def _api(self) -> Any:
        """W&B's own way to ask the service something else than its commands do."""
        from wandb.apis.public.service_api import ServiceApi

        settings = self._wandb.setup().settings.model_copy()
        return ServiceApi(settings=settings, timeout=self._told["timeout"])

    def _held(self, run_id: str) -> int:
        """The last step of which the service has a row; -1 where it has none."""
        asked = {"project": self._told["project"], "entity": self._told["entity"], "name": run_id}
        answer: dict[str, Any] = self._api().execute_graphql(HELD, asked)
        bucket = (answer.get("model") or {}).get("bucket") or {}
        tail = json.loads(bucket.get("historyTail") or "[]")
        if not bucket.get("historyLineCount") or not tail:
            return -1
        line = json.loads(tail[-1]) if isinstance(tail[-1], str) else tail[-1]
        return int(line.get("_step", -1))


def _open_files(process: Any) -> list[Any]:
    import psutil

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
    """Answer until the input ends; then end at once, whatever W&B is about."""
    requests, replies = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    waiting: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_work, args=(waiting, replies), daemon=True).start()
    with os.fdopen(requests, "rb") as lines:
        for line in lines:
            waiting.put(json.loads(line))
    # W&B's core would go on for a second, and upload under the hands of whoever comes next.
    for child in psutil.Process().children(recursive=True):
        child.kill()
    os._exit(0)


def _work(waiting: "queue.Queue[dict[str, Any]]", replies: int) -> None:
    session: WandBSession | None = None
    while True:
        told = waiting.get()
        try:
            session = session or WandBSession(sys.argv[1])
            answer = {"result": _handlers(session)[told.pop("do")](told)}
        except Exception as error:  # noqa: BLE001 whatever W&B raises is an answer
            answer = error_answer(error, session.key if session else None)
        os.write(replies, json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    main()
