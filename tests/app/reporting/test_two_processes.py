"""A large report is computed by two processes, which changes none of its bytes."""

import os
from pathlib import Path

import pytest
from stored_runs import configuration, stored, study

from rlexp.app.commands.judge.report import ReportRequest, report
from rlexp.app.reading import beside as forks
from rlexp.app.reporting import build
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.sections.reliability import ReliabilitySection

SECTIONS = "section=[verdicts,curves,measurements,sample_efficiency,reliability,checklist]"


def test_two_processes_write_the_same_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each section is computed by one of two processes, and the files are those of one process."""
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "home"))
    experiment = stored(
        study(tmp_path).layout, "alpha", configuration("ppo"), configuration("a2c"), test=4
    )
    for seed in range(4):
        experiment.complete(seed, 400.0 + seed)
        experiment.complete(seed, 100.0 + seed, label="a2c")
    request = ReportRequest(
        targets=("alpha",), formats=("html", "json"), overrides=(SECTIONS, "repetitions=200")
    )
    alone = {path: path.read_bytes() for path in report(request, study(tmp_path)).files}

    command = os.getpid()
    whole = ReliabilitySection.part

    def in_the_fork(section: ReliabilitySection, context: ReportContext) -> object:
        assert os.getpid() != command, "the command computes a section of the fork"
        return whole(section, context)

    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "another home"))
    monkeypatch.setattr(build, "WORTH_FORKING", 1)
    monkeypatch.setattr(forks, "can_fork", lambda: True)
    monkeypatch.setattr(ReliabilitySection, "part", in_the_fork)
    again = report(request, study(tmp_path))
    assert not again.unchanged
    assert alone == {path: path.read_bytes() for path in again.files}
