"""Sections and metrics of a user, as in the guide to reports: a class and a YAML file."""

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


def code_blocks(language: str) -> list[str]:
    """The code blocks of a language in the guide to reports."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def empty_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A workspace with the section and metric of the guide, and two labels with scores."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RLEXP_RUNS", raising=False)
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "home"))
    monkeypatch.syspath_prepend(tmp_path)
    for folder in ("my_parts", "conf/section", "conf/metric"):
        (tmp_path / folder).mkdir(parents=True)
    section, metric = code_blocks("python")
    (tmp_path / "my_parts" / "__init__.py").write_text(f"{section}\n\n{metric}")
    (option,) = code_blocks("yaml")
    (tmp_path / "conf" / "section" / "thanks.yaml").write_text(option)
    largest = "largest:\n  _target_: my_parts.Largest\n"
    (tmp_path / "conf" / "metric" / "largest.yaml").write_text(largest)
    made = study(tmp_path)
    there = stored(made.layout, "alpha", configuration("ppo"), configuration("a2c"))
    for label in ("ppo", "a2c"):
        for seed in range(3):
            there.complete(seed, 10.0 * seed, label=label)
    return made


def run_command(*words: str) -> Any:
    """Run a command in this process."""
    return app(list(words), standalone_mode=False)


def test_a_user_section_is_in_the_report(
    empty_workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    """The section is in the report, and its settings can be changed like any other."""
    run_command("report", "alpha", *ASKED, *ALLOW, "--format", "md", "--output", "out")
    (page,) = (empty_workspace.folder / "out").glob("*.md")
    assert "We thank our reviewers." in page.read_text()
    more = ("--set", "section.thanks.whom=nobody")
    run_command("report", "alpha", *ASKED, *more, *ALLOW, "--format", "md", "--output", "out")
    assert "We thank nobody." in page.read_text()
    said = capsys.readouterr().out
    assert "rlexp compare alpha --allow-import my_parts" in said


def test_a_user_section_must_be_allowed(empty_workspace: Workspace) -> None:
    """The package is imported only if the command allows it."""
    with pytest.raises(ConfigError, match="allow another package with --allow-import"):
        run_command("report", "alpha", *ASKED)


def test_a_user_section_is_in_a_comparison(
    empty_workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    """A comparison shows the section, and its next commands allow the package."""
    run_command("compare", "alpha", "--set", "section=[thanks]", *ALLOW)
    said = capsys.readouterr().out
    assert "We thank our reviewers." in said
    assert "To write the report: rlexp report alpha --allow-import my_parts" in said


def test_a_user_metric_is_a_column_of_the_aggregates(
    empty_workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    """The metric is a column of the aggregates, with an interval."""
    run_command("compare", "alpha", "--set", "metric=[mean,largest]", *ALLOW)
    said = capsys.readouterr().out
    assert "best run" in said
    assert "20 [" in said
