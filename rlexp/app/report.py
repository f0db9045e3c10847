"""`rlexp report`: from records to one frozen study of numbers, and from it to files."""

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from rlexp.app.gather import gather, read_target
from rlexp.app.kept_report import Kept, Source, Told
from rlexp.app.study import Study as Place
from rlexp.config.report import ReportParts, read_report
from rlexp.console import Console
from rlexp.errors import ConfigError, did_you_mean
from rlexp.protocol.seeds import Phase
from rlexp.reports.blocks import Notice, Study
from rlexp.reports.checklist import failed_checks
from rlexp.reports.evidence import Evidence
from rlexp.reports.inquiry import Inquiry
from rlexp.reports.sentences import counted, listed
from rlexp.store.files import publish

REFUSED = 3
"""Exit code of a check that refuses."""
FORMATS = ("html", "latex", "csv", "json", "md")
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


def report(targets: Sequence[str], wanted: Wanted, place: Place, console: Console) -> int:
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
    place: Place,
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
    place: Place,
    source: Source,
) -> Kept:
    importance = "importance" in parts.sections
    phase = read_phase(wanted.phase)
    evidence = gather(targets, phase, place, importance=importance, integrity=True)
    study = make_study(evidence, parts)
    folder = Path(wanted.output) if wanted.output else _folder(place, evidence)
    files = rendered(study, formats, folder, Path(wanted.figures) if wanted.figures else None)
    for path, content in files.items():
        _write(path, content)
    notices = tuple(b for part in study.parts for b in part.blocks if isinstance(b, Notice))
    told = Told(notices=notices, failed_checks=study.failed_checks, labels=len(study.labels))
    # A run that a process holds may be lost in the next moment, and no file tells.
    if not evidence.running:
        source.keep(files, told)
    return Kept(tuple(files), told)


def rendered(
    study: Study, formats: Sequence[str], folder: Path, figures: Path | None
) -> dict[Path, bytes]:
    """Every file of a report; figures for print only where a folder for them is named."""
    links = {"figures": os.path.relpath(figures, folder)} if figures else {}
    files: dict[Path, bytes] = {}
    for name in formats:
        files |= {folder / path: own for path, own in _rendered(study, name, links).items()}
    if figures:
        drawn = import_module("rlexp.reports.figures").draw(study)
        files |= {figures / name: content for name, content in drawn.items()}
    return files


def make_study(evidence: Evidence, parts: ReportParts) -> Study:
    """Compute every section once."""
    inquiry = Inquiry(
        evidence=evidence,
        settings=parts.settings,
        metrics=parts.metrics,
        sections=tuple(parts.sections),
    )
    computed = (section.part(inquiry) for section in parts.sections.values())
    return Study(
        title=listed(e.name for e in evidence.experiments),
        subtitle=", ".join(_counts(evidence)),
        labels=evidence.labels,
        parts=tuple(part for part in computed if part is not None),
        version=version("rlexp"),
        failed_checks=failed_checks(inquiry),
    )


def read_formats(words: Sequence[str]) -> list[str]:
    """Formats from words, several of which may stand in one, told apart by commas.

    Raises:
        ConfigError: There is no such format.
    """
    names = [name for word in words for name in word.split(",") if name]
    for name in names:
        if name not in FORMATS:
            raise ConfigError(
                f"there is no format {name!r}{did_you_mean(name, FORMATS)} "
                f"(there are: {', '.join(FORMATS)})",
            )
    if not names:
        raise ConfigError(f"--format is empty; formats: {', '.join(FORMATS)}")
    return list(dict.fromkeys(names))


def _counts(evidence: Evidence) -> Iterator[str]:
    """What the report is about, in numbers."""
    if trials := sum(len(own.trials) for own in evidence.sweeps):
        yield counted(trials, "trial")
    if evidence.labels or not evidence.sweeps:
        yield counted(len(evidence.labels), "label")
        yield counted(len(evidence.tasks), "task")
    yield f"{counted(len(evidence.members), f'{evidence.phase} run')} asked for"


def read_phase(word: str | None) -> Phase | None:
    """A phase from its name.

    Raises:
        ConfigError: There is no such phase.
    """
    known = [str(phase) for phase in Phase]
    if word is not None and word not in known:
        raise ConfigError(
            f"there is no phase {word!r}{did_you_mean(word, known)} "
            f"(there are: {', '.join(known)})",
        )
    return Phase(word) if word else None


def _rendered(study: Study, name: str, links: Mapping[str, str]) -> Mapping[str, bytes]:
    """Files of a format by name; some formats link the figures, relative to themselves."""
    if name == "html":
        page: str = import_module("rlexp.reports.page.html").render_html(study)
        return {"report.html": page.encode()}
    module = {"latex": "latex", "csv": "as_csv", "json": "as_json", "md": "markdown"}[name]
    renderer = import_module(f"rlexp.reports.formats.{module}")
    linked = links if name in {"latex", "md"} else {}
    files: Mapping[str, bytes] = renderer.render(study, **linked)
    return files


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        publish(path, content)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror}; name another folder with --output, or "
            "with --figures for figures",
        ) from error


def _folder(place: Place, evidence: Evidence) -> Path:
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
