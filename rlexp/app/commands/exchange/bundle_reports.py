"""Computes the reports of a bundle from the records in it, for writing and for checking."""

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from rlexp.app.commands.judge.report import ReportRequest, compute_report
from rlexp.app.reporting.build import render_files
from rlexp.app.workspace import Workspace
from rlexp.config.report_settings import read_report
from rlexp.reports.drawing.blocks import ReportDocument
from rlexp.reports.evidence.runs import Evidence
from rlexp.store.bundles.bundle_manifest import BundledReport
from rlexp.store.layout import Layout

COMPUTING = ("rlexp", "numpy", "scipy", "jinja2", "matplotlib")
"""Packages whose versions can change a number, a page or a figure."""
DATA, FIGURES, TABLES = "data", "figures", "tables"
NUMBERS, REPORT_PAGE = "report.json", "report.html"


@dataclass(frozen=True, slots=True)
class ComputedReport:
    """A report that was computed from the records of a bundle.

    Attributes:
        report: What it is computed from, with the phase that was chosen.
        evidence: Its runs.
        document: Its content.
    """

    report: BundledReport
    evidence: Evidence
    document: ReportDocument


def unpacked_workspace(folder: Path, allowed: Sequence[str] = ()) -> Workspace:
    """The workspace in the folder of a bundle; the variable `RLEXP_RUNS` does not change it."""
    return Workspace(folder, Layout(folder / "runs"), tuple(allowed))


def compute_bundled_report(report: BundledReport, workspace: Workspace) -> ComputedReport:
    """Compute a report; no look is entered.

    Args:
        report: Targets and settings; an empty phase is chosen as `rlexp report` does.
        workspace: The workspace of the bundle.

    Raises:
        RlexpError: A setting or a record cannot be read, or a class of another package is not allowed.
    """
    parts = read_report(report.overrides, workspace.folder, workspace.allowed)
    request = ReportRequest(
        targets=report.targets, phase=report.phase or None, overrides=report.overrides
    )
    evidence, document = compute_report(request, parts, workspace, catalogued=False)
    chosen = BundledReport(report.folder, report.targets, str(evidence.phase), report.overrides)
    return ComputedReport(chosen, evidence, document)


def render_bundled_report(
    computed: ComputedReport, *, linked: bool, drawn: bool
) -> dict[str, bytes]:
    """Every file of a report, by its path in the bundle.

    Args:
        computed: The report.
        linked: Whether the tables refer to figures that are not drawn here.
        drawn: Whether figures are drawn, which needs Matplotlib and most of the time. The tables refer
            to them if there are some.
    """
    # Films lie outside of `runs/` and are in no bundle.
    folder, document = Path(computed.report.folder), computed.document
    files = {
        **render_files(document, ("html", "json"), folder, None, {}),
        **render_files(document, ("csv",), folder / DATA, None, {}),
    }
    figures = {}
    if drawn:
        drawing = import_module("rlexp.reports.figures")
        figures = {folder / FIGURES / n: c for n, c in drawing.draw_figures(document).items()}
    links = {"figures": f"../{FIGURES}"} if linked or figures else {}
    latex = import_module("rlexp.reports.formats.latex")
    files |= {folder / TABLES / n: c for n, c in latex.render(document, **links).items()}
    files |= figures
    return {path.as_posix(): content for path, content in files.items()}


def can_draw() -> bool:
    """Whether Matplotlib is installed."""
    return find_spec("matplotlib") is not None


def computing_versions() -> dict[str, str]:
    """The versions of what computes reports here, by name; a package that is absent is left out."""
    versions = {"python": platform.python_version()}
    for package in COMPUTING:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions
