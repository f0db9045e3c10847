"""The storage of the W&B test server, and its answers to clients."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

HISTORY = "wandb-history.jsonl"
SUMMARY = "wandb-summary.json"
ENTITY = "someone"
INTERNAL_KEYS = ("_step", "_runtime", "_timestamp", "global_step")
"""The keys in a line of history that are not metrics."""


@dataclass
class StoredRun:
    """A run as the service has it.

    Attributes:
        id: The id of the run.
        project: The project of the run.
        about: The fields from the newest requests: group, job type, name, tags and others.
        config: The configuration, each value under `value`.
        lines: The lines of each streamed file, by name.
        uploaded: The bytes of each uploaded file, by name.
        exit_code: The exit code, or None while the run is running.
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
        """The logged mappings, one for each line."""
        return [json.loads(line) for line in self.lines.get(HISTORY, ())]

    @property
    def steps(self) -> list[int]:
        """The step of each line of history."""
        return [line["_step"] for line in self.history]

    @property
    def points(self) -> list[tuple[str, int, float]]:
        """Every logged value of every metric."""
        return [
            (name, line["_step"], value)
            for line in self.history
            for name, value in line.items()
            if name not in INTERNAL_KEYS
        ]

    @property
    def summary(self) -> dict[str, Any]:
        """The summary values of the run."""
        lines = self.lines.get(SUMMARY)
        return dict(json.loads(lines[-1])) if lines else {}

    def write(self, name: str, offset: int, content: list[str]) -> None:
        """Write lines at an offset, replacing existing lines."""
        lines = self.lines.setdefault(name, [])
        if name == SUMMARY:
            lines[:] = content
            return
        assert offset <= len(lines), f"{name}: a gap before line {offset}"
        lines[offset : offset + len(content)] = content


@dataclass
class Storage:
    """All data of the test server.

    Attributes:
        url: The address for uploads of files.
        runs: The runs, by id.
        artifacts: The requested artifacts, by id; `state` says whether one is complete.
        files: The bytes of each uploaded file, by its path.
        used: The run and the name of each artifact that the run has as an input.
        unknown: Requested operations that the server does not know.
    """

    url: str = ""
    runs: dict[str, StoredRun] = field(default_factory=dict)
    artifacts: dict[str, dict[str, Any]] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    used: list[tuple[str, str]] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def stream(self, run: str, payload: dict[str, Any]) -> dict[str, Any]:
        """Store lines of files at their offsets."""
        for name, chunk in payload.get("files", {}).items():
            self.runs[run].write(name, chunk["offset"], chunk["content"])
        if payload.get("complete"):
            self.runs[run].exit_code = payload["exitcode"]
        return {}

    def upload(self, path: str, content: bytes) -> None:
        """Store an uploaded file."""
        self.files[path] = content
        kind, owner, name = path.split("/", 2)
        if kind == "run":
            self.runs[owner].uploaded[name] = content

    def resolve(self, query: str, variables: dict[str, Any]) -> Any:
        """The data that answer a GraphQL request."""
        match = re.search(r"(?:query|mutation)\s+(\w+)", query)
        operation = match[1] if match else ""
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
            "UseArtifact": self._use_artifact,
        }.get(operation)
        if answer is None:
            self.unknown.append(operation or query)
            return {}
        return answer(variables)

    def _viewer(self, variables: dict[str, Any]) -> Any:
        flags = json.dumps({"code_saving_enabled": True})
        account = {"username": ENTITY, "email": "someone@example.org", "flags": flags}
        return {"viewer": {"id": "1", "entity": ENTITY, "teams": {"edges": []}, **account}}

    def _resume_status(self, variables: dict[str, Any]) -> Any:
        run = self.runs.get(variables["name"])
        model = {"id": "p", "name": variables["project"], "entity": {"id": "e", "name": ENTITY}}
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

    def _upsert(self, variables: dict[str, Any]) -> Any:
        inserted = variables["name"] not in self.runs
        run = self.runs.setdefault(
            variables["name"], StoredRun(variables["name"], variables["project"])
        )
        run.about.update({key: value for key, value in variables.items() if value is not None})
        if variables.get("config"):
            run.config = json.loads(variables["config"])
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

    def _run_files(self, variables: dict[str, Any]) -> Any:
        run = variables["run"]
        files = [
            {"name": name, "uploadUrl": f"{self.url}/storage/run/{run}/{name}"}
            for name in variables["files"]
        ]
        return {"createRunFiles": {"runID": run, "uploadHeaders": [], "files": files}}

    def _artifact_type(self, variables: dict[str, Any]) -> Any:
        return {"project": {"artifact": None}}

    def _create_artifact(self, variables: dict[str, Any]) -> Any:
        requested = variables["input"]
        artifact_id = f"artifact-{len(self.artifacts)}"
        for existing_id, artifact in self.artifacts.items():
            if artifact["digest"] == requested["digest"]:
                artifact_id = existing_id
        artifact = self.artifacts.setdefault(artifact_id, {**requested, "state": "PENDING"})
        fields = {"id": artifact_id, "state": artifact["state"]}
        return {
            "createArtifact": {
                "artifact": {**fields, "artifactSequence": {"latestArtifact": None}}
            }
        }

    def _manifest(self, variables: dict[str, Any]) -> Any:
        artifact_id = variables.get("artifactID") or variables["artifactManifestID"]
        url = f"{self.url}/storage/manifest/{artifact_id}/manifest.json"
        file = {"id": artifact_id, "uploadUrl": url, "uploadHeaders": []}
        answer = {"artifactManifest": {"id": artifact_id, "file": file}}
        return {"createArtifactManifest": answer, "updateArtifactManifest": answer}

    def _artifact_files(self, variables: dict[str, Any]) -> Any:
        nodes = [
            {
                "storagePath": file["name"],
                "uploadUrl": f"{self.url}/storage/artifact/{file['artifactID']}/{file['name']}",
                "uploadHeaders": [],
                "uploadMultipartUrls": None,
                "artifact": {"id": file["artifactID"]},
            }
            for file in variables["input"]["artifactFiles"]
        ]
        return {"createArtifactFiles": {"files": {"edges": [{"node": node} for node in nodes]}}}

    def _commit(self, variables: dict[str, Any]) -> Any:
        artifact_id = variables["artifactID"]
        self.artifacts[artifact_id]["state"] = "COMMITTED"
        fields = {"id": artifact_id, "digest": self.artifacts[artifact_id]["digest"]}
        return {"commitArtifact": {"artifact": fields}}

    def _use_artifact(self, variables: dict[str, Any]) -> Any:
        requested = variables["input"]
        artifact_id = requested["artifactID"]
        name = self.artifacts[artifact_id]["artifactCollectionName"]
        self.used.append((requested["runName"], name))
        return {"useArtifact": {"artifact": {"id": artifact_id}}}
