"""Reports of runs whose steps are no environment steps."""

from dataclasses import replace
from importlib.metadata import version

import pytest
from evidence_samples import configured, evidence, scored

from rlexp.app.reporting.build import make_report
from rlexp.app.workspace import Workspace
from rlexp.config.report_settings import read_report
from rlexp.errors import ProtocolError
from rlexp.protocol.experiment import Configuration
from rlexp.reports.evidence.runs import Evidence
from rlexp.reports.formats.markdown import render


def in_unit(unit: str | None, label: str = "ppo") -> Configuration:
    """A configuration whose steps are counted in a unit."""
    plain = configured(label)
    return replace(plain, environment={**plain.environment, "unit": unit})


def of_unit(unit: str | None) -> Evidence:
    """The evidence of five runs of two labels, whose steps are counted in a unit."""
    members = [scored(in_unit(unit, label), (50.0, 60, 70, 80, 90)) for label in ("ppo", "a2c")]
    return evidence(run for runs in members for run in runs)


def test_runs_of_different_units_are_never_reported_together() -> None:
    """The refusal names both units with a label of each."""
    members = [*scored(in_unit("tokens"), (1.0, 2)), *scored(in_unit(None, "a2c"), (1.0, 2))]
    with pytest.raises(ProtocolError, match=r"in tokens \(ppo\) and in environment steps \(a2c\)"):
        evidence(members)


def test_every_table_axis_and_sentence_names_the_unit() -> None:
    """A whole report about gradient steps never says environment steps."""
    workspace = Workspace.here()
    parts = read_report([], workspace.folder, workspace.allowed)
    (page,) = [
        content
        for name, content in render(make_report(of_unit("gradient_steps"), parts)).items()
        if name.endswith(".md")
    ]
    text = page.decode()
    assert version("rlexp") in text
    assert "gradient steps" in text
    lines = [line for line in text.splitlines() if "environment step" in line.lower()]
    assert [] == lines


def test_reports_about_environment_steps_stay_as_they_are() -> None:
    """A declared null changes no letter of a report."""
    assert "environment_steps" == of_unit(None).unit
