"""A report that uses what an earlier one read and computed is the report from nothing."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from in_full import IN_FULL
from quick_parts import quick_parts
from sealed_runs import edit
from stored_runs import Stored, completed, configuration, failed, stored, study

from rlexp.app.commands.judge import report as use_case
from rlexp.app.commands.judge.report import (
    ReportMemory,
    ReportRequest,
    compute_report,
    compute_report_in_stages,
)
from rlexp.app.reading import experiment_scan, run_memory
from rlexp.config.report_settings import ReportParts, read_report
from rlexp.records.events import Event
from rlexp.reports.drawing.blocks import ReportDocument
from rlexp.reports.page.html import render_html
from rlexp.store.layout import RunPaths
from rlexp.store.ledger_writer import LedgerWriter

quick = pytest.fixture(autouse=True)(quick_parts)

LABELS = ("ppo", "a2c", "dqn", "sac")
SEEDS = 3
ORDERS = range(20 if IN_FULL else 2)
REQUEST = ReportRequest(targets=("alpha",))


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Files count as settled at once, and four labels have a report in two stages."""
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(run_memory, "SETTLED", -10.0)
    monkeypatch.setattr(use_case, "STAGED", len(LABELS))


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> ReportParts:
    """The settings of reports."""
    return read_report((), tmp_path_factory.mktemp("settings"), ())


def four_labels(folder: Path) -> Stored:
    """An experiment of four labels without runs."""
    return stored(study(folder).layout, "alpha", *map(configuration, LABELS), test=SEEDS)


def end(experiment: Stored, label: str, seed: int, events: list[Event]) -> RunPaths:
    """Store an attempt that ended, and enter it in the ledger."""
    run = experiment.attempt(seed, events, label=label)
    LedgerWriter(experiment.paths).enter(run, run.attempts()[-1].number)
    return run


def stages(
    folder: Path, parts: ReportParts, memory: ReportMemory
) -> list[tuple[ReportDocument, bool]]:
    """The stages of the report with this memory."""
    return list(compute_report_in_stages(REQUEST, parts, study(folder), memory))


def check(folder: Path, parts: ReportParts, memory: ReportMemory) -> None:
    """The last stage with a memory has the bytes of a report from nothing."""
    *_, (study_of_memory, is_complete) = stages(folder, parts, memory)
    _, from_nothing = compute_report(REQUEST, parts, study(folder))
    assert is_complete
    assert repr(from_nothing) == repr(study_of_memory)
    assert render_html(from_nothing, {}) == render_html(study_of_memory, {})


@pytest.mark.parametrize("order", ORDERS)
def test_the_report_after_each_change_is_that_from_nothing(
    tmp_path: Path, parts: ReportParts, order: int
) -> None:
    """Runs end in a random order; some fail, are tried again, are edited or are removed."""
    draw, memory = random.Random(order), ReportMemory()
    experiment = four_labels(tmp_path)
    waiting = [(label, seed) for label in LABELS for seed in range(SEEDS)]
    draw.shuffle(waiting)
    done: list[RunPaths] = []
    for label, seed in waiting:
        score = float(draw.randrange(1, 500))
        fails = draw.random() < 0.25
        done.append(end(experiment, label, seed, failed() if fails else completed(score)))
        if fails and draw.random() < 0.5:
            end(experiment, label, seed, completed(score))
        if draw.random() < 0.3:
            edit(draw.choice(done).attempts()[-1].journal, '"returns":[', '"returns":[3')
        if draw.random() < 0.15:
            shutil.rmtree(done.pop(draw.randrange(len(done))).folder)
        check(tmp_path, parts, memory)


def test_an_ended_run_is_read_once(
    tmp_path: Path, parts: ReportParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When one run ends, only this run is read; a changed file makes its run be read again."""
    experiment, memory, read = four_labels(tmp_path), ReportMemory(), []
    of_disk = experiment_scan.read_intact

    def counted(run: RunPaths, *, measurements: bool = False) -> object:
        read.append(run.folder.name)
        return of_disk(run, measurements=measurements)

    monkeypatch.setattr(experiment_scan, "read_intact", counted)
    runs = [end(experiment, label, 0, completed(10.0)) for label in LABELS]

    def names_after(change: Callable[[], object]) -> list[str]:
        read.clear()
        change()
        stages(tmp_path, parts, memory)
        return sorted(read)

    assert sorted(run.folder.name for run in runs) == names_after(lambda: None)
    assert [] == names_after(lambda: None)
    new = experiment.run(1, "dqn").folder.name
    assert [new] == names_after(lambda: end(experiment, "dqn", 1, completed(20.0)))
    journal = runs[0].attempts()[-1].journal
    assert [runs[0].folder.name] == names_after(lambda: edit(journal, "10.0", "20.0"))


def test_a_run_that_may_go_on_is_not_remembered(tmp_path: Path, parts: ReportParts) -> None:
    """A run without an end is read each time: its process may end while no file changes."""
    experiment, memory = four_labels(tmp_path), ReportMemory()
    run = experiment.attempt(0, completed(10.0)[:2], label="ppo")
    stages(tmp_path, parts, memory)
    remembered = memory.evidence.scans["alpha"].runs
    assert run.folder.name not in remembered._runs
    end(experiment, "a2c", 0, completed(10.0))
    check(tmp_path, parts, memory)
    assert [experiment.run(0, "a2c").folder.name] == list(remembered._runs)


def test_a_changed_policy_is_found_with_remembered_sums(
    tmp_path: Path, parts: ReportParts
) -> None:
    """A file that is edited after a report is named by the next one with the same memory."""
    experiment, memory = four_labels(tmp_path), ReportMemory()
    run = experiment.complete(0, 10.0)
    run.model.write_text("policy")
    LedgerWriter(experiment.paths).enter(run, 1)
    check(tmp_path, parts, memory)
    run.model.write_text("policies")
    check(tmp_path, parts, memory)
    *_, (changed, _) = stages(tmp_path, parts, memory)
    assert "model.zip is not what was written" in repr(changed)


def test_the_first_stage_lacks_only_the_intervals_of_pairs(
    tmp_path: Path, parts: ReportParts
) -> None:
    """The verdicts and the adjusted p-values of both stages are the same."""
    experiment = four_labels(tmp_path)
    for number, label in enumerate(LABELS):
        for seed in range(SEEDS):
            end(experiment, label, seed, completed(100.0 * number + seed))
    (early, first), (complete, last) = stages(tmp_path, parts, ReportMemory())
    assert (False, True) == (first, last)
    assert early.card == complete.card
    differing = [a.name for a, b in zip(early.parts, complete.parts, strict=True) if a != b]
    assert ["pairs"] == differing
