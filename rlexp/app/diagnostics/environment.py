"""Examines one environment by starting the probe in another process, which may crash or hang."""

import json
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rlexp.algorithms import BringsEnvironments
from rlexp.app.diagnostics.finding import Finding, FindingStatus, any_failed, fail, ok, warn
from rlexp.app.execution.checks.compatibility import EnvironmentSpaces, check_parts
from rlexp.app.workspace import Workspace
from rlexp.config.compose import compose
from rlexp.config.config_files import group_options
from rlexp.config.validate import build
from rlexp.errors import ConfigError, did_you_mean
from rlexp.executors import Exit, Job, Session
from rlexp.executors.local import Local

ENTRY = "rlexp.app.diagnostics.environment_probe:execute"
PRELOAD = ("gymnasium", "rlexp.app.diagnostics.environment_probe")
HANG_LIMIT = 60.0
"""Seconds that making, resetting or one step may take."""
DEATH_LIMIT = 10.0
"""Seconds that a killed process may take to disappear."""
LONGEST_LINE = 200


def examine_environment(name: str, workspace: Workspace) -> list[Finding]:
    """Examine an environment in a separate process.

    Args:
        name: An option of the group `environment`, or a Gymnasium id.
        workspace: The workspace, which holds its yaml file and its code.

    Raises:
        ConfigError: The environment's configuration is invalid.
    """
    workspace.make_importable()
    options = group_options("environment", workspace.folder)
    settings = _configuration(name, name in options, workspace)
    build(settings, "environment", workspace.allowed)
    with TemporaryDirectory(prefix="rlexp-doctor-") as temporary:
        folder = Path(temporary)
        request = {"environment": settings, "allowed": list(workspace.allowed)}
        (folder / "request.json").write_text(json.dumps(request))
        end = _run(folder, workspace)
        findings = _read(folder)
        if not (folder / "done").exists():
            findings.append(_end(end, folder))
        elif not any_failed(findings):
            spaces = json.loads((folder / "spaces.json").read_text())
            spaces["observation"] = tuple(spaces["observation"])
            parts = (candidates(group, workspace) for group in ("agent", "algorithm"))
            findings.append(list_compatible(EnvironmentSpaces(**spaces), *parts))
    return findings if name in options else [_with_hint(f, name, options) for f in findings]


def _configuration(name: str, is_option: bool, workspace: Workspace) -> dict[str, Any]:
    if is_option:
        overrides = [f"environment={name}"]
    else:
        quoted = name.replace("\\", "\\\\").replace("'", "\\'")
        overrides = ["environment=gymnasium", f"environment.id='{quoted}'"]
    (composed,) = compose(overrides, workspace.folder)
    settings: dict[str, Any] = composed.plain["environment"]
    return settings


def _run(folder: Path, workspace: Workspace) -> Exit | None:
    """Run the probe and return its exit, or None if it hung and was killed."""
    executor = Local(workers=1, hang_timeout=HANG_LIMIT, grace=1.0, log_limit=1_000_000)
    with executor.open(ENTRY, PRELOAD, threads=1, folder=workspace.folder) as session:
        session.submit(Job("probe", (str(folder),), folder / "log.txt"))
        return _wait(session, folder)


def _wait(session: Session, folder: Path) -> Exit | None:
    last, since = b"", time.monotonic()
    while True:
        if exits := session.poll(0.1):
            return exits[0]
        # The probe writes its current operation: while that changes, the probe is not hung.
        now = _bytes(folder / "now")
        if now != last:
            last, since = now, time.monotonic()
        if time.monotonic() - since > HANG_LIMIT:
            break
    session.kill("probe")
    deadline = time.monotonic() + DEATH_LIMIT
    while time.monotonic() < deadline and not session.poll(0.1):
        pass
    return None


def _read(folder: Path) -> list[Finding]:
    lines = _bytes(folder / "findings.jsonl").splitlines()
    entries = [json.loads(line) for line in lines]
    return [Finding(**{**entry, "status": FindingStatus(entry["status"])}) for entry in entries]


def _end(end: Exit | None, folder: Path) -> Finding:
    """Describe why the probe ended before its last check."""
    where = _bytes(folder / "now").decode(errors="replace").strip() or "the start"
    if end is None:
        return fail(
            "process",
            f"hangs: {where} did not end within {HANG_LIMIT:g} s, and the process was killed",
            "make it return sooner; a training would wait for it until executor.hang_timeout",
        )
    if end.signal is not None:
        how = f"crashes: {where} ended the process by {signal.Signals(end.signal).name}"
    else:
        how = f"exits: {where} ended the process with code {end.code}"
    return fail(
        "process",
        how + _crash_location(folder),
        "a training would end there with the state crashed",
    )


def _crash_location(folder: Path) -> str:
    """The line of code at which the process died, or else the last line that it printed."""
    lines = [
        line.strip() for line in _bytes(folder / "log.txt").decode(errors="replace").split("\n")
    ]
    frames = [line for line in lines if line.startswith("File ")]
    lines_to_show = frames[:1] or [line for line in lines if line][-1:]
    return f" ({lines_to_show[0][:LONGEST_LINE]})" if lines_to_show else ""


def _with_hint(finding: Finding, name: str, options: Sequence[str]) -> Finding:
    """Suggest a configured environment for an id that is not registered."""
    hint = did_you_mean(name, options)
    if finding.check != "make" or finding.status is not FindingStatus.FAIL or not hint:
        return finding
    return Finding(finding.status, finding.check, finding.detail + hint, finding.fix)


Parts = dict[str, Any]
"""Plug-ins by the names of their options."""


NEEDS_OVERRIDES = ("external",)
"""Algorithms that cannot be built from their defaults, because the user must name a command."""


def candidates(group: str, workspace: Workspace) -> Parts:
    """Every option of a group that can be built with its default settings."""
    names = [
        name for name in group_options(group, workspace.folder) if name not in NEEDS_OVERRIDES
    ]
    composed = compose([f"{group}={','.join(names)}"], workspace.folder)
    built = (build(composition.plain[group], group, workspace.allowed) for composition in composed)
    return dict(zip(names, built, strict=True))


def list_compatible(spaces: EnvironmentSpaces, agents: Parts, algorithms: Parts) -> Finding:
    """List the algorithms that can learn on an environment, with the agent that each needs."""
    algorithms_of_agent = {
        kind: [
            name for name, algorithm in algorithms.items() if _fits(agent, kind, algorithm, spaces)
        ]
        for kind, agent in agents.items()
    }
    most_first = sorted(algorithms_of_agent.items(), key=lambda pair: -len(pair[1]))
    options = "; ".join(f"agent={kind}: {', '.join(names)}" for kind, names in most_first if names)
    if not options:
        fix = "wrap the environment so that an algorithm supports its spaces"
        return warn("algorithms", "no algorithm supports these spaces", fix)
    return ok("algorithms", f"compatible: {options}")


def _fits(agent: Any, kind: str, algorithm: Any, spaces: EnvironmentSpaces) -> bool:
    # Spaces do not say whether an algorithm that brings its own environments knows the task.
    if isinstance(algorithm, BringsEnvironments):
        return False
    try:
        check_parts(agent, kind, algorithm, spaces, "it")
    except ConfigError:
        return False
    return True


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
