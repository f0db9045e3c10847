"""Hostile strings in records are shown by every output and obeyed by none."""

import csv
import io
import json
import re
import unicodedata
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from foreign_studies import CommandResult, ForeignStudy, edit_json, edit_lines, foreign_study
from hostile_strings import HOSTILE

from rlexp.text import DIRECTION_CONTROLS

LABELS = [text for text in HOSTILE if text.isprintable() and text.strip()][::7]
"""Some strings only, because a report compares all pairs; an unprintable label is damage."""


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> ForeignStudy:
    """A study with an experiment in which every free text is hostile."""
    study = foreign_study(tmp_path_factory)
    make_hostile(study)
    return study


def make_hostile(study: ForeignStudy) -> None:
    """Put every string into every place of an experiment that takes any text."""
    paths = study.copy("hostile")

    def configurations(document: dict[str, Any]) -> None:
        (first, second) = document["configurations"]
        hostile_configurations = [
            {
                **first,
                "label": text,
                "task": text,
                "algorithm": {**first["algorithm"], "learning_rate": 0.1 + number},
                "reference": {**first["reference"], "source": text},
            }
            for number, text in enumerate(LABELS)
        ]
        document["configurations"] = [
            {**first, "label": LABELS[0]},
            second,
            *hostile_configurations,
        ]

    edit_json(paths.definition, configurations)
    for run in paths.runs():
        attempt = run.attempt(1)
        edit_json(attempt.provenance, fill)
        attempt.patch.write_text("".join(f"diff --git a/{t} b/{t}\n+{t}\n" for t in safe(HOSTILE)))
        attempt.log.write_text("\n".join(safe(HOSTILE)))
    journal = paths.runs()[0].attempt(1).journal
    failed = {"ending": "failed", "failure": "user", "reason": " ".join(HOSTILE)}
    edit_lines(journal, lambda event: event.update(failed if event["event"] == "ended" else {}))


def fill(provenance: dict[str, Any]) -> None:
    """Fill a provenance record with hostile strings."""
    provenance["command"] = list(HOSTILE)
    provenance["packages"] = {text: text for text in HOSTILE}
    provenance["variables"] = {text: text for text in HOSTILE}
    provenance["code"] |= {
        "branch": HOSTILE[0],
        "remote": HOSTILE[4],
        "commit": HOSTILE[16],
        "dirty": list(HOSTILE),
        "untracked": list(HOSTILE),
    }
    provenance["machine"] |= {"host": HOSTILE[1], "processor": HOSTILE[17], "system": HOSTILE[-9]}
    provenance["python"] = HOSTILE[2]
    provenance["folder"] = HOSTILE[0]


def safe(texts: tuple[str, ...]) -> Iterator[str]:
    """The texts, with characters that no file can hold replaced."""
    return (text.encode(errors="replace").decode() for text in texts)


SHOWING = (
    ("show", "hostile"),
    ("show", "hostile", "--config"),
    ("show", "hostile", "--provenance"),
    ("show", "hostile/a2c"),
    ("logs", "hostile/a2c"),
    ("ls",),
    ("ls", "hostile"),
    ("status", "hostile"),
    ("diff", "hostile/a2c", "hostile/ppo"),
    ("compare", "hostile"),
    ("verify", "hostile"),
    ("evaluate", "hostile/a2c"),
    ("rm", "hostile"),
    ("show", "hostile", "--json"),
    ("ls", "hostile", "--json"),
)


@pytest.mark.parametrize("arguments", SHOWING, ids=" ".join)
def test_terminals_have_nothing_to_obey(study: ForeignStudy, arguments: tuple[str, ...]) -> None:
    """Output has no control characters and none that change the direction of text."""
    result: CommandResult = study.give(*arguments)
    study.check(result, 0, 1, 2)
    obeyed = {c for c in result.text if is_obeyed(c)}
    assert set() == obeyed
    if "--json" in arguments:
        json.loads(result.text)


def is_obeyed(character: str) -> bool:
    """Whether a terminal may act on a character instead of showing it."""
    control = unicodedata.category(character) in {"Cc", "Cs"} and character not in "\n\t"
    return control or character in DIRECTION_CONTROLS


@pytest.fixture(scope="module")
def report(study: ForeignStudy) -> Path:
    """The report of the hostile experiment, in every format."""
    folder = study.folder / "written"
    arguments = (
        "report",
        "hostile",
        "--format",
        "html,latex,csv,json,md",
        "--output",
        str(folder),
    )
    study.check(study.give(*arguments), 0)
    return folder


def test_reports_write_files_of_plain_names(report: Path) -> None:
    """A report writes files with plain names into the requested folder."""
    files = [path.relative_to(report) for path in report.rglob("*") if path.is_file()]
    assert len(files) > 5
    assert all(re.fullmatch(r"[A-Za-z0-9][\w.-]*", str(f), re.ASCII) for f in files), files


class Page(HTMLParser):
    """The tags, event handlers and link targets of an HTML page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.handlers: list[str] = []
        self.targets: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record the tag, its event handlers and its link targets."""
        self.tags.append(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on")]
        self.targets += [v or "" for n, v in attrs if n in {"href", "src", "action", "srcdoc"}]


def test_browsers_have_nothing_to_obey(report: Path) -> None:
    """The HTML report has only rlexp's scripts, no handlers, and no links out of the page."""
    text = (report / "report.html").read_text()
    page = Page(text)
    active_tags = {"script", "iframe", "object", "embed", "img", "base", "form"}
    assert ["script", "script"] == [tag for tag in page.tags if tag in active_tags]
    assert 1 == text.count('<script type="application/json"') == text.count("Content-Security")
    assert [] == page.handlers
    assert [] == [t for t in page.targets if not t.startswith(("#", "data:"))]
    assert not set(text) & DIRECTION_CONTROLS


def test_sheets_have_nothing_to_obey(report: Path) -> None:
    """No cell of a CSV file begins like a formula, unless it is a number."""
    formulas = []
    for path in report.glob("*.csv"):
        for row in csv.reader(io.StringIO(path.read_bytes().decode())):
            formulas += [c for c in row if c.startswith(("=", "+", "-", "@", "\t", "＝"))]
    assert [] == [cell for cell in formulas if not re.fullmatch(r"-?[\d.e+-]+|-inf", cell)]


def test_typesetters_have_nothing_to_obey(report: Path) -> None:
    """The LaTeX report prints backslashes of records as text and executes none of them."""
    text = "".join(path.read_text() for path in report.glob("*.tex"))
    assert "textbackslash" in text
    for macro in ("write", "immediate", "csname", "catcode", "endcsname", "include"):
        assert not re.search(rf"\\{macro}(?![a-z])\s*[{{\\`1]", text), macro
    inputs = set(re.findall(r"\\input\s*\{?([^}\s]*)", text))
    assert inputs <= {path.name for path in report.glob("*.tex")}
    assert "^^" not in text
    assert text.count(r"\documentclass") == text.count(r"\end{document}")


def test_markdown_has_nothing_to_obey(report: Path) -> None:
    """The Markdown report has no HTML tags, outside links or pictures."""
    text = (report / "report.md").read_text()
    outside = re.sub(r"(?ms)^(`{3,}).*?^\1$", "", text)
    assert not re.search(r"(?<!\\)<(script|img|iframe|svg|a|meta|http)", outside, re.IGNORECASE)
    assert not re.search(r"(?<!\\)\]\((?!#)", outside)
    assert not {c for c in text if is_obeyed(c)}
