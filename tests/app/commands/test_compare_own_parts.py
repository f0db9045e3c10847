"""A class and a YAML file add a section or a metric of a user, as in the guide to reports."""

import re
from pathlib import Path
from typing import Any

import pytest
from quick_parts import quick_parts
from stored_runs import configuration, stored, study

from rlexp.app.workspace import Workspace
from rlexp.cli.every_command import app
from rlexp.errors import ConfigError

quick = pytest.fixture(autouse=True)(quick_parts)

PAGE = (Path(__file__).parents[3] / "docs" / "guides" / "reports.md").read_text()
ALLOW = ["--allow-import", "my_parts"]
CHOOSE_SECTION = ["--set", "section=[thanks]"]


def code_blocks(language: str) -> list[str]:
    """The code blocks of a language in the guide to reports."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def workspace_of_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
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
    workspace = study(tmp_path)
    experiment = stored(workspace.layout, "alpha", configuration("ppo"), configuration("a2c"))
    for label in ("ppo", "a2c"):
        for seed in range(3):
            experiment.complete(seed, 10.0 * seed, label=label)
    return workspace


def run_command(*words: str) -> Any:
    """Run a command in this process."""
    return app(list(words), standalone_mode=False)


def test_a_user_section_is_in_the_report(
    workspace_of_guide: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    """The report has the section, and settings of the section can be changed."""
    run_command("report", "alpha", *CHOOSE_SECTION, *ALLOW, "--format", "md", "--output", "out")
    (page,) = (workspace_of_guide.folder / "out").glob("*.md")
    assert "We thank our reviewers." in page.read_text()
    setting = ("--set", "section.thanks.whom=nobody")
    run_command(
        "report", "alpha", *CHOOSE_SECTION, *setting, *ALLOW, "--format", "md", "--output", "out"
    )
    assert "We thank nobody." in page.read_text()
    output = capsys.readouterr().out
    assert "rlexp compare alpha --allow-import my_parts" in output


def test_a_user_section_must_be_allowed(workspace_of_guide: Workspace) -> None:
    """A section whose package is not allowed is refused."""
    with pytest.raises(ConfigError, match="allow another package with --allow-import"):
        run_command("report", "alpha", *CHOOSE_SECTION)


def test_a_user_section_is_in_a_comparison(
    workspace_of_guide: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    """A comparison shows the section, and its next commands allow the package."""
    run_command("compare", "alpha", "--set", "section=[thanks]", *ALLOW)
    output = capsys.readouterr().out
    assert "We thank our reviewers." in output
    assert "To write the report: rlexp report alpha --allow-import my_parts" in output


def test_a_user_metric_is_a_column_of_the_aggregates(
    workspace_of_guide: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    """The aggregates have a column of the metric with intervals."""
    run_command("compare", "alpha", "--set", "metric=[mean,largest]", *ALLOW, "--full")
    output = capsys.readouterr().out
    assert "best run" in output
    assert "20 [" in output
