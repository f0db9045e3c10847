"""Examines one environment from outside: starts the probe, and survives whatever it does."""

import json
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rlexp.app.diagnostics.finding import Finding, Status, any_failed, fail, ok, warn
from rlexp.app.execution.compatibility import Spaces, check_parts
from rlexp.app.workspace import Workspace
from rlexp.config.compose import compose
from rlexp.config.sources import group_options
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
LONGEST_WORDS = 200


def examine(name: str, workspace: Workspace) -> list[Finding]:
    """Examine an environment in a process of its own.

    Args:
        name: An option of the group `environment`, or a Gymnasium id.
        workspace: Where its yaml and its code are looked up.

    Raises:
        ConfigError: Its configuration is no valid one.
    """
    workspace.make_importable()
    known = group_options("environment", workspace.folder)
    plain = _configuration(name, name in known, workspace)
    build(plain, "environment", workspace.allowed)
    with TemporaryDirectory(prefix="rlexp-doctor-") as place:
        folder = Path(place)
        request = {"environment": plain, "allowed": list(workspace.allowed)}
        (folder / "request.json").write_text(json.dumps(request))
        end = _run(folder, workspace)
        findings = _read(folder)
        if not (folder / "done").exists():
            findings.append(_end(end, folder))
        elif not any_failed(findings):
            spaces = json.loads((folder / "spaces.json").read_text())
            spaces["observation"] = tuple(spaces["observation"])
            parts = (candidates(group, workspace) for group in ("agent", "algorithm"))
            findings.append(fitting(Spaces(**spaces), *parts))
    return findings if name in known else [_with_hint(f, name, known) for f in findings]


def _configuration(name: str, known: bool, workspace: Workspace) -> dict[str, Any]:
    if known:
        words = [f"environment={name}"]
    else:
        quoted = name.replace("\\", "\\\\").replace("'", "\\'")
        words = ["environment=gymnasium", f"environment.id='{quoted}'"]
    (composed,) = compose(words, workspace.folder)
    plain: dict[str, Any] = composed.plain["environment"]
    return plain


def _run(folder: Path, workspace: Workspace) -> Exit | None:
    """Run the probe to its end, whatever that is; nothing if it had to be killed as hung."""
    executor = Local(workers=1, hang_timeout=HANG_LIMIT, grace=1.0, log_limit=1_000_000)
    with executor.open(ENTRY, PRELOAD, threads=1, folder=workspace.folder) as session:
        session.submit(Job("probe", (str(folder),), folder / "log.txt"))
        return _wait(session, folder)


def _wait(session: Session, folder: Path) -> Exit | None:
    last, since = b"", time.monotonic()
    while True:
        if exits := session.poll(0.1):
            return exits[0]
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
    plain = [json.loads(line) for line in lines]
    return [Finding(**{**each, "status": Status(each["status"])}) for each in plain]


def _end(end: Exit | None, folder: Path) -> Finding:
    """Say how the probe ended that did not reach its end."""
    where = _bytes(folder / "now").decode(errors="replace").strip() or "the start"
    if end is None:
        return fail(
            "process",
            f"hangs: {where} did not end within {HANG_LIMIT:g} s, and the process was killed",
            "let it answer sooner; a training would wait for it until executor.hang_timeout",
        )
    if end.signal is not None:
        how = f"crashes: {where} ended the process by {signal.Signals(end.signal).name}"
    else:
        how = f"exits: {where} ended the process with code {end.code}"
    return fail("process", how + _last_words(folder), "a training would end there, as crashed")


def _last_words(folder: Path) -> str:
    """Where the process died, if Python could still say so, or what it printed last."""
    lines = [
        line.strip() for line in _bytes(folder / "log.txt").decode(errors="replace").split("\n")
    ]
    frames = [line for line in lines if line.startswith("File ")]
    told = frames[:1] or [line for line in lines if line][-1:]
    return f" ({told[0][:LONGEST_WORDS]})" if told else ""


def _with_hint(finding: Finding, name: str, known: Sequence[str]) -> Finding:
    """Say which of our names may have been meant by an id that is not registered."""
    hint = did_you_mean(name, known)
    if finding.check != "make" or finding.status is not Status.FAIL or not hint:
        return finding
    return Finding(finding.status, finding.check, finding.detail + hint, finding.fix)


Parts = dict[str, Any]
"""Plug-ins by the names of their options."""


WITH_WORDS = ("external",)
"""Algorithms that are what the user's own command makes them."""


def candidates(group: str, workspace: Workspace) -> Parts:
    """Every option of a group that needs no words of its own, built with its values."""
    names = [name for name in group_options(group, workspace.folder) if name not in WITH_WORDS]
    composed = compose([f"{group}={','.join(names)}"], workspace.folder)
    built = (build(one.plain[group], group, workspace.allowed) for one in composed)
    return dict(zip(names, built, strict=True))


def fitting(spaces: Spaces, agents: Parts, algorithms: Parts) -> Finding:
    """Name the algorithms that can learn on an environment, with the agent that each needs."""
    found = {
        kind: [
            name for name, algorithm in algorithms.items() if _fits(agent, kind, algorithm, spaces)
        ]
        for kind, agent in agents.items()
    }
    most_first = sorted(found.items(), key=lambda pair: -len(pair[1]))
    told = "; ".join(f"agent={kind}: {', '.join(names)}" for kind, names in most_first if names)
    if not told:
        fix = "wrap the environment, so that its spaces are ones that an algorithm takes"
        return warn("algorithms", "none fits these spaces", fix)
    return ok("algorithms", f"these fit, with {told}")


def _fits(agent: Any, kind: str, algorithm: Any, spaces: Spaces) -> bool:
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
