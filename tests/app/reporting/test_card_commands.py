"""The commands on the card of a report."""

from dataclasses import replace
from pathlib import Path

from evidence_samples import inquiry, tuning_phase, typical
from stored_runs import study

from rlexp.app.reporting.next_commands import card_commands
from rlexp.reports.drawing.blocks import ReportDocument
from rlexp.reports.evidence.runs import Evidence

EMPTY = ReportDocument(title="", subtitle="", labels=(), parts=(), version="1")


def commands(evidence: Evidence, folder: Path) -> list[str]:
    """The commands on the card of these runs."""
    settings = inquiry(evidence).settings
    named = card_commands([], [], evidence, EMPTY, settings, study(folder))
    return [step.command for step in named]


def with_command(evidence: Evidence, *words: str) -> Evidence:
    """The runs, as this command has trained them."""
    members = (replace(m, provenance={"command": list(words)}) for m in evidence.members)
    return replace(evidence, members=tuple(members))


def test_tuning_runs_name_the_command_that_trains_test_runs(tmp_path: Path) -> None:
    """The recorded command is repeated in the test phase, without the seeds of the other phase."""
    typed = ("rlexp", "run", "algorithm=ppo,a2c", "phase=tuning", "seeds.tuning=2", "experiment=x")
    expected = "rlexp run algorithm=ppo,a2c experiment=x phase=test"
    assert expected in commands(with_command(tuning_phase(), *typed), tmp_path)


def test_a_command_with_a_masked_secret_is_not_repeated(tmp_path: Path) -> None:
    """A mask is not the value that was typed, so the command would fail."""
    typed = ("rlexp", "run", "algorithm=ppo", "phase=tuning", "tracker.key=********")
    shown = commands(with_command(tuning_phase(), *typed), tmp_path)
    assert not any("phase=test" in command for command in shown)


def test_test_runs_name_no_command_for_test_runs(tmp_path: Path) -> None:
    """A report of test runs needs no further phase."""
    shown = commands(with_command(typical(), "rlexp", "run", "algorithm=ppo"), tmp_path)
    assert not any("phase=test" in command for command in shown)
