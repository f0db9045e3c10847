"""The storage of the W&B test server, and its answers to clients."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

HISTORY = "wandb-history.jsonl"
SUMMARY = "wandb-summary.json"
ENTITY = "someone"
MADE_UP = ("_step", "_runtime", "_timestamp", "global_step")
"""What is in a line of history beside the metrics."""


@dataclass
class StoredRun:
    """A run as the service has it.

    Attributes:
        id: Under which it was made.
        project: Where.
        about: What the newest requests said of it: group, job type, name, tags …
        config: Its configuration, each value under `value`.
        lines: Of each streamed file.
        uploaded: The bytes of each uploaded file, by name.
        exit_code: None while it runs.
    """

    id: str
    project: str
    about: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, list[str]] = field(default_factory=dict)
    uploaded: dict[str, bytes] = field(default_factory=dict)
    exit_code: int | None = None

    @property
    def history(self) -> list[dict[str, Any]]:
        """What was logged, a mapping for each line."""
        return [json.loads(line) for line in self.lines.get(HISTORY, ())]

    @property
    def steps(self) -> list[int]:
        """The step of each line."""
        return [line["_step"] for line in self.history]

    @property
    def points(self) -> list[tuple[str, int, float]]:
        """Every value of every metric that was logged."""
        return [
            (name, line["_step"], value)
            for line in self.history
            for name, value in line.items()
            if name not in MADE_UP
        ]

    @property
    def summary(self) -> dict[str, Any]:
        """Its summary values."""
        lines = self.lines.get(SUMMARY)
        return dict(json.loads(lines[-1])) if lines else {}

    def write(self, name: str, offset: int, content: list[str]) -> None:
        """Put lines where they belong, over what stands there."""
        lines = self.lines.setdefault(name, [])
        if name == SUMMARY:
            lines[:] = content
            return
        assert offset <= len(lines), f"{name}: a gap before line {offset}"
        lines[offset : offset + len(content)] = content


@dataclass
class Storage:
    """Everything that a service keeps.

    Attributes:
        url: Where files are to be uploaded to.
        runs: By id.
        artifacts: What was asked for, by its number here; `state` says whether it is complete.
        files: The bytes of each uploaded file, by what it belongs to and its name.
        unknown: Operations that it was asked for and does not know.
    """

    url: str = ""
    runs: dict[str, StoredRun] = field(default_factory=dict)
    artifacts: dict[str, dict[str, Any]] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)

    def stream(self, run: str, sent: dict[str, Any]) -> dict[str, Any]:
        """Take lines of files at their offsets."""
        for name, chunk in sent.get("files", {}).items():
            self.runs[run].write(name, chunk["offset"], chunk["content"])
        if sent.get("complete"):
            self.runs[run].exit_code = sent["exitcode"]
        return {}

    def upload(self, where: str, content: bytes) -> None:
        """Take a file."""
        self.files[where] = content
        kind, owner, name = where.split("/", 2)
        if kind == "run":
            self.runs[owner].uploaded[name] = content

    def resolve(self, query: str, given: dict[str, Any]) -> Any:
        """The data that answer a GraphQL request."""
        found = re.search(r"(?:query|mutation)\s+(\w+)", query)
        operation = found[1] if found else ""
        answer = {
            "Viewer": self._viewer,
            "RunResumeStatus": self._resume_status,
            "UpsertBucket": self._upsert,
            "CreateRunFiles": self._run_files,
            "ArtifactType": self._artifact_type,
            "CreateArtifact": self._create_artifact,
            "CreateArtifactManifest": self._manifest,
            "UpdateArtifactManifest": self._manifest,
            "CreateArtifactFiles": self._artifact_files,
            "CommitArtifact": self._commit,
        }.get(operation)
        if answer is None:
            self.unknown.append(operation or query)
            return {}
        return answer(given)

    def _viewer(self, given: dict[str, Any]) -> Any:
        flags = json.dumps({"code_saving_enabled": True})
        known = {"username": ENTITY, "email": "someone@example.org", "flags": flags}
        return {"viewer": {"id": "1", "entity": ENTITY, "teams": {"edges": []}, **known}}

    def _resume_status(self, given: dict[str, Any]) -> Any:
        run = self.runs.get(given["name"])
        model = {"id": "p", "name": given["project"], "entity": {"id": "e", "name": ENTITY}}
        if run is None:
            return {"model": {**model, "bucket": None}}
        internal = run.config.get("_wandb", {}).get("value", {})
        history = run.lines.get(HISTORY, [])
        bucket = {
            **self._bucket(run),
            "summaryMetrics": json.dumps(run.summary),
            "logLineCount": 0,
            "eventsLineCount": 0,
            "historyTail": json.dumps(history[-1:]),
            "eventsTail": "[]",
            "tags": run.about.get("tags") or [],
            "notes": None,
            "wandbConfig": json.dumps({"t": internal.get("t", {})}),
        }
        return {"model": {**model, "bucket": bucket}}

    def _upsert(self, given: dict[str, Any]) -> Any:
        inserted = given["name"] not in self.runs
        run = self.runs.setdefault(given["name"], StoredRun(given["name"], given["project"]))
        run.about.update({key: value for key, value in given.items() if value is not None})
        if given.get("config"):
            run.config = json.loads(given["config"])
        run.exit_code = None
        return {"upsertBucket": {"bucket": self._bucket(run), "inserted": inserted}}

    def _bucket(self, run: StoredRun) -> dict[str, Any]:
        entity = {"id": "e", "name": ENTITY}
        return {
            "id": run.id,
            "name": run.id,
            "displayName": run.about.get("displayName"),
            "description": "",
            "config": json.dumps(run.config),
            "sweepName": None,
            "project": {"id": "p", "name": run.project, "entity": entity},
            "historyLineCount": len(run.lines.get(HISTORY, [])),
        }

    def _run_files(self, given: dict[str, Any]) -> Any:
        run = given["run"]
        files = [
            {"name": name, "uploadUrl": f"{self.url}/storage/run/{run}/{name}"}
            for name in given["files"]
        ]
        return {"createRunFiles": {"runID": run, "uploadHeaders": [], "files": files}}

    def _artifact_type(self, given: dict[str, Any]) -> Any:
        return {"project": {"artifact": None}}

    def _create_artifact(self, given: dict[str, Any]) -> Any:
        asked = given["input"]
        number = f"artifact-{len(self.artifacts)}"
        for known, artifact in self.artifacts.items():
            if artifact["digest"] == asked["digest"]:
                number = known
        artifact = self.artifacts.setdefault(number, {**asked, "state": "PENDING"})
        made = {"id": number, "state": artifact["state"]}
        return {
            "createArtifact": {"artifact": {**made, "artifactSequence": {"latestArtifact": None}}}
        }

    def _manifest(self, given: dict[str, Any]) -> Any:
        number = given.get("artifactID") or given["artifactManifestID"]
        url = f"{self.url}/storage/manifest/{number}/manifest.json"
        file = {"id": number, "uploadUrl": url, "uploadHeaders": []}
        answer = {"artifactManifest": {"id": number, "file": file}}
        return {"createArtifactManifest": answer, "updateArtifactManifest": answer}

    def _artifact_files(self, given: dict[str, Any]) -> Any:
        nodes = [
            {
                "storagePath": file["name"],
                "uploadUrl": f"{self.url}/storage/artifact/{file['artifactID']}/{file['name']}",
                "uploadHeaders": [],
                "uploadMultipartUrls": None,
                "artifact": {"id": file["artifactID"]},
            }
            for file in given["input"]["artifactFiles"]
        ]
        return {"createArtifactFiles": {"files": {"edges": [{"node": node} for node in nodes]}}}

    def _commit(self, given: dict[str, Any]) -> Any:
        number = given["artifactID"]
        self.artifacts[number]["state"] = "COMMITTED"
        done = {"id": number, "digest": self.artifacts[number]["digest"]}
        return {"commitArtifact": {"artifact": done}}
