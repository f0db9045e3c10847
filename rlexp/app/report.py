"""`rlexp report`: from records to one frozen study of numbers, and from it to files."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from rlexp.app.gather import gather
from rlexp.app.study import Study as Place
from rlexp.config.report import ReportParts, read_report
from rlexp.console import Console
from rlexp.errors import ConfigError, did_you_mean
from rlexp.protocol.seeds import Phase
from rlexp.reports.blocks import Notice, Study, Tone
from rlexp.reports.checklist import failed_checks
from rlexp.reports.evidence import Evidence
from rlexp.reports.sections import Inquiry
from rlexp.store.files import publish

REFUSED = 3
"""Exit code of a check that refuses."""
FORMATS = ("html", "latex", "csv", "json", "md")
LONGEST_NAME = 80


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
    place.make_importable()
    parts = read_report(wanted.words, place.folder, place.allowed)
    evidence = gather(targets, read_phase(wanted.phase), place)
    study = make_study(evidence, parts)
    files: dict[Path, bytes] = {}
    folder = Path(wanted.output) if wanted.output else _folder(place, evidence)
    for name in formats:
        files |= {folder / path: content for path, content in _render(study, name).items()}
    if wanted.figures:
        drawn = import_module("rlexp.reports.figures").draw(study)
        files |= {Path(wanted.figures) / path: content for path, content in drawn.items()}
    for path, content in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        publish(path, content)
    _tell(study, list(files), targets, console)
    return REFUSED if wanted.strict and study.failed_checks else 0


def make_study(evidence: Evidence, parts: ReportParts) -> Study:
    """Compute every section once."""
    inquiry = Inquiry(evidence=evidence, settings=parts.settings, metrics=parts.metrics)
    computed = (section.part(inquiry) for section in parts.sections.values())
    runs = len(evidence.members)
    return Study(
        title=" and ".join(e.name for e in evidence.experiments),
        subtitle=(
            f"{len(evidence.labels)} labels, {len(evidence.tasks)} tasks, "
            f"{runs} {evidence.phase} runs asked for"
        ),
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
    return list(dict.fromkeys(names))


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


def _render(study: Study, name: str) -> Mapping[str, bytes]:
    if name == "html":
        page: str = import_module("rlexp.reports.page.html").render_html(study)
        return {"report.html": page.encode()}
    module = {"latex": "latex", "csv": "as_csv", "json": "as_json", "md": "markdown"}[name]
    files: Mapping[str, bytes] = import_module(f"rlexp.reports.formats.{module}").render(study)
    return files


def _folder(place: Place, evidence: Evidence) -> Path:
    name = "+".join(e.name for e in evidence.experiments)[:LONGEST_NAME]
    return place.folder / "reports" / name


def _tell(study: Study, files: Sequence[Path], targets: Sequence[str], console: Console) -> None:
    blocks = [block for part in study.parts for block in part.blocks]
    notices = [block for block in blocks if isinstance(block, Notice)]
    value = {
        "files": [str(path) for path in files],
        "failed_checks": list(study.failed_checks),
        "notices": [{"tone": str(n.tone), "text": n.text} for n in notices],
    }
    marks = {Tone.GOOD: "  ", Tone.NOTE: "  ", Tone.WARNING: "! ", Tone.PROBLEM: "! "}
    lines = [f"{marks[n.tone]}{n.text}" for n in notices]
    lines += [f"Check failed: {text}" for text in study.failed_checks]
    lines += [f"Wrote {path}" for path in files[:10]]
    lines += [f"Wrote {len(files) - 10} further files"] if len(files) > 10 else []
    compare = shlex.join(["rlexp", "compare", *targets])
    console.show(value, [*lines, f"To compare in the terminal: {compare}"])
