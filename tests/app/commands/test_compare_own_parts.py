"""Sections and metrics of a study's own, as the guide to reports says: a class and a yaml."""

import re
from pathlib import Path
from typing import Any

import pytest
from quick_parts import quick_parts
from stored_runs import configuration, stored, study

from rlexp.app.workspace import Workspace
from rlexp.cli import app
from rlexp.errors import ConfigError

quick = pytest.fixture(autouse=True)(quick_parts)

PAGE = (Path(__file__).parents[3] / "docs" / "reports.md").read_text()
ALLOW = ["--allow-import", "my_parts"]
ASKED = ["--set", "section=[thanks]"]


def code(language: str) -> list[str]:
    """The blocks of a language in the guide to reports."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A study with the guide's section and metric, and two labels with scores."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RLEXP_RUNS", raising=False)
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "home"))
    monkeypatch.syspath_prepend(tmp_path)
    for folder in ("my_parts", "conf/section", "conf/metric"):
        (tmp_path / folder).mkdir(parents=True)
    section, metric = code("python")
    (tmp_path / "my_parts" / "__init__.py").write_text(f"{section}\n\n{metric}")
    (option,) = code("yaml")
    (tmp_path / "conf" / "section" / "thanks.yaml").write_text(option)
    largest = "largest:\n  _target_: my_parts.Largest\n"
    (tmp_path / "conf" / "metric" / "largest.yaml").write_text(largest)
    made = study(tmp_path)
    there = stored(made.layout, "alpha", configuration("ppo"), configuration("a2c"))
    for label in ("ppo", "a2c"):
        for seed in range(3):
            there.complete(seed, 10.0 * seed, label=label)
    return made


def give(*words: str) -> Any:
    """Give a command in this process."""
    return app(list(words), standalone_mode=False)


def test_a_section_of_ones_own(place: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    """It stands in the report, and can be set like any other part."""
    give("report", "alpha", *ASKED, *ALLOW, "--format", "md", "--output", "out")
    (page,) = (place.folder / "out").glob("*.md")
    assert "We thank our reviewers." in page.read_text()
    more = ("--set", "section.thanks.whom=nobody")
    give("report", "alpha", *ASKED, *more, *ALLOW, "--format", "md", "--output", "out")
    assert "We thank nobody." in page.read_text()
    said = capsys.readouterr().out
    assert "rlexp compare alpha --allow-import my_parts" in said


def test_it_must_be_allowed(place: Workspace) -> None:
    """Code of a package is imported only where the command allows the package."""
    with pytest.raises(ConfigError, match="allow another package with --allow-import"):
        give("report", "alpha", *ASKED)


def test_a_section_in_a_comparison(place: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    """A comparison shows it too, and its next commands allow the package."""
    give("compare", "alpha", "--set", "section=[thanks]", *ALLOW)
    said = capsys.readouterr().out
    assert "We thank our reviewers." in said
    assert "To write the report: rlexp report alpha --allow-import my_parts" in said


def test_a_metric_of_ones_own(place: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    """It is a column of the aggregates, with an interval like any other."""
    give("compare", "alpha", "--set", "metric=[mean,largest]", *ALLOW)
    said = capsys.readouterr().out
    assert "best run" in said
    assert "20 [" in said
