"""`rlexp report`: from records to one frozen report of numbers, and from it to files."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rlexp.app.gather import gather, read_target
from rlexp.app.kept_report import Kept, Source, Told
from rlexp.app.reporting.build import make_study, read_formats, read_phase, rendered
from rlexp.app.workspace import Workspace
from rlexp.config.report import ReportParts, read_report
from rlexp.console import Console
from rlexp.errors import ConfigError
from rlexp.reports.blocks import Notice
from rlexp.reports.evidence import Evidence
from rlexp.store.files import publish

REFUSED = 3
"""Exit code of a check that refuses."""
LONGEST_NAME = 80
MOST_NAMED = 10
"""Files that are named one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a report is asked for; `words` change settings of `conf/report.yaml`."""

    formats: tuple[str, ...] = ("html",)
    output: str | None = None
    figures: str | None = None
    phase: str | None = None
    strict: bool = False
    words: tuple[str, ...] = ()


def report(targets: Sequence[str], wanted: Wanted, place: Workspace, console: Console) -> int:
    """Write the reports of the targets; returns the exit code.

    Raises:
        RlexpError: A target, a format or a setting is unknown; nothing was written.
    """
    formats = read_formats(wanted.formats)
    place.make_allowed_importable()
    parts = read_report(wanted.words, place.folder, place.allowed)
    read_phase(wanted.phase)
    source = _source(targets, formats, wanted, parts, place)
    earlier = source.find()
    found = earlier or _make(targets, formats, wanted, parts, place, source)
    phase = ["--phase", wanted.phase] if wanted.phase else []
    verb = "Wrote" if earlier is None else "Nothing changed since this was written:"
    _tell(found, verb, [*targets, *phase, *place.permission], console)
    return REFUSED if wanted.strict and found.told.failed_checks else 0


def _source(
    targets: Sequence[str],
    formats: Sequence[str],
    wanted: Wanted,
    parts: ReportParts,
    place: Workspace,
) -> Source:
    asked = {
        "targets": list(targets),
        "phase": wanted.phase,
        "formats": list(formats),
        "output": wanted.output,
        "figures": wanted.figures,
        "from": str(Path.cwd()),
        "settings": parts.composed,
    }
    names = dict.fromkeys(read_target(text).experiment for text in targets)
    # Classes of the user's may change without a file that is known here.
    experiments = None if place.allowed else [place.experiment(name) for name in names]
    return Source.of(place.folder, asked, experiments)


def _make(
    targets: Sequence[str],
    formats: Sequence[str],
    wanted: Wanted,
    parts: ReportParts,
    place: Workspace,
    source: Source,
) -> Kept:
    importance = "importance" in parts.sections
    phase = read_phase(wanted.phase)
    evidence = gather(targets, phase, place, importance=importance, integrity=True)
    computed = make_study(evidence, parts)
    folder = Path(wanted.output) if wanted.output else _folder(place, evidence)
    files = rendered(computed, formats, folder, Path(wanted.figures) if wanted.figures else None)
    for path, content in files.items():
        _write(path, content)
    notices = tuple(b for part in computed.parts for b in part.blocks if isinstance(b, Notice))
    told = Told(notices=notices, failed_checks=computed.failed_checks, labels=len(computed.labels))
    # A run that a process holds may be lost in the next moment, and no file tells.
    if not evidence.running:
        source.keep(files, told)
    return Kept(tuple(files), told)


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        publish(path, content)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror}; name another folder with --output, or "
            "with --figures for figures",
        ) from error


def _folder(place: Workspace, evidence: Evidence) -> Path:
    name = "+".join(e.name for e in evidence.experiments)[:LONGEST_NAME]
    return place.folder / "reports" / name


def _tell(found: Kept, verb: str, targets: Sequence[str], console: Console) -> None:
    files, told = found.files, found.told
    following = shlex.join(["rlexp", "compare", *targets])
    if console.as_json:
        console.json(
            {
                "files": [str(path) for path in files],
                "failed_checks": list(told.failed_checks),
                "notices": [{"tone": str(n.tone), "text": n.text} for n in told.notices],
                "next": following,
            }
        )
        return
    console.blocks(told.notices)
    for text in told.failed_checks:
        console.line(f"Check failed: {text}")
    for path in files[:MOST_NAMED]:
        console.line(f"{verb} {path}")
    if len(files) > MOST_NAMED:
        console.line(f"{verb} {len(files) - MOST_NAMED} further files")
    if told.labels > 1:
        console.line(f"To compare in the terminal: {following}")
