"""`rlexp verify`: names every record that is missing, edited or copied."""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rlexp.app.integrity import examine
from rlexp.app.survey import Survey, survey
from rlexp.app.workspace import Workspace
from rlexp.console import Console
from rlexp.errors import ConfigError, RecordError
from rlexp.records.integrity import SHORT, Finding, Integrity, Kind
from rlexp.records.run import State
from rlexp.store.checkpoints import checkpoint_steps, read_checkpoint
from rlexp.store.layout import ExperimentPaths
from rlexp.store.runs import StoredRun

HEAD = re.compile(r"[0-9a-f]{8,64}")


def verify(name: str | None, head: str | None, workspace: Workspace, console: Console) -> int:
    """Compare records with their ledgers; returns the exit code, 1 where anything is wrong.

    Args:
        name: An experiment; without one, all of them.
        head: The beginning of the sum of a line that its ledger must still have.
        workspace: Where they are.
        console: To tell it on.

    Raises:
        RlexpError: There is no such experiment, or the head is none.
    """
    noted = _read_head(name, head)
    places = workspace.layout.experiments() if name is None else [workspace.experiment(name)]
    if not places:
        console.show(
            [], [f"{workspace.layout.root} holds no experiments yet; 'rlexp run' makes some"]
        )
        return 0
    verdicts = []
    for place in places:
        verdict = _verify(place, noted)
        verdicts.append(verdict)
        if not console.as_json:
            for line in (*_lines(verdict), *_hint(place, verdict)):
                console.line(line)
    if console.as_json:
        console.json([verdict.plain() for verdict in verdicts])
    return int(any(verdict.faults for verdict in verdicts))


def _read_head(name: str | None, head: str | None) -> str | None:
    if head is None:
        return None
    if name is None:
        raise ConfigError("--head is of one ledger: rlexp verify EXPERIMENT --head HEX")
    noted = head.lower()
    if not HEAD.fullmatch(noted):
        raise ConfigError(
            f"--head {head!r} is no head: write the {SHORT} digits that 'rlexp verify' and reports "
            "print, at least the first 8 of them",
        )
    return noted


def _verify(paths: ExperimentPaths, head: str | None) -> Integrity:
    found = survey(paths)
    verdict = examine(found, head)
    checkpoints = [finding for one in _stored(found) for finding in _checkpoints(one)]
    findings = sorted((*verdict.findings, *checkpoints), key=lambda f: list(Kind).index(f.kind))
    return replace(verdict, findings=tuple(findings))


def _stored(found: Survey) -> Iterator[StoredRun]:
    yield from (f.stored for f in found.runs if f.stored is not None and not f.damaged)


def _checkpoints(stored: StoredRun) -> Iterator[Finding]:
    """Checkpoints that are damaged: a fault where the run could still continue from them."""
    if stored.record.state is State.RUNNING:
        return
    needed = stored.record.may_run(retry=True)
    kind = Kind.DAMAGED if needed else Kind.REMARK
    for step in _steps(stored):
        try:
            checkpoint = read_checkpoint(stored.paths, step, run_id=stored.record.spec.id)
            for _ in checkpoint.transitions() if needed else ():
                pass
        except RecordError as error:
            text = str(error).replace(f"{stored.paths.folder}/", "")
            yield Finding(kind=kind, text=text, run=stored.paths.folder.name)


def _steps(stored: StoredRun) -> Sequence[int]:
    try:
        return checkpoint_steps(stored.paths)
    except RecordError:
        return []


def _lines(verdict: Integrity) -> Iterator[str]:
    for finding in verdict.findings:
        where = f"{verdict.experiment}/{finding.run}" if finding.run else verdict.experiment
        yield f"{finding.kind}: {where}: {finding.text}"
    yield f"{verdict.experiment}: {verdict}"


def _hint(paths: ExperimentPaths, verdict: Integrity) -> Iterator[str]:
    """How to be rid of a record that is wrong; a sweep that has chosen makes none anew."""
    runs = [f.run for f in verdict.faults if f.run and paths.run(f.run).folder.exists()]
    if runs and not paths.selection.exists():
        command = shlex.join(["rlexp", "rm", f"{paths.name}/{runs[0]}", "--yes"])
        yield f"To remove it, so that repeating its command makes it anew: {command}"
