"""The curves of ended runs come from the catalogue, and nothing else changes."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from command_line import rlexp
from quick_parts import quick_parts
from stored_runs import (
    STARTED,
    Stored,
    configuration,
    ended,
    evaluated,
    failed,
    stored,
    study,
)

from rlexp.app.commands.exchange.load import load
from rlexp.app.commands.judge.compare import CompareRequest, compare
from rlexp.app.commands.judge.report import ReportRequest, compute_report, report
from rlexp.app.reading import experiment_scan
from rlexp.app.reading.experiment_scan import survey
from rlexp.app.results import document
from rlexp.app.sweeps.state import read_runs
from rlexp.app.workspace import Workspace
from rlexp.config.report_settings import read_report
from rlexp.records.events import (
    Checkpointed,
    Continued,
    Ending,
    Event,
    Examined,
    Failure,
    Measured,
)
from rlexp.records.run import RunRecord
from rlexp.store import catalogue, curves
from rlexp.store.layout import Layout, RunPaths
from rlexp.store.ledger_writer import LedgerWriter
from rlexp.store.runs import StoredRun

quick = pytest.fixture(autouse=True)(quick_parts)

LABELS = ("ppo", "dqn")
MEASURES = {"success": (1.0, float("nan")), "cost": (0.1, float("inf"))}


def unusual(score: float) -> list[Event]:
    """The events of a run with measures, an examination, a checkpoint and unusual numbers."""
    return [
        replace(evaluated(50, score, -0.0), measures={**MEASURES, "context/length": (1.0, 2.0)}),
        evaluated(60, float("nan"), 5e-324),
        Measured(time=STARTED + 60.5, step=60, metrics={"train/loss": float("nan"), "a b": -0.0}),
        Measured(time=STARTED + 61, step=61, metrics={}),
        Measured(time=STARTED + 62, step=62, metrics={"train/loss": score, "a b": 1e300}),
        Checkpointed(time=STARTED + 70, step=70, name="70", seconds=0.1, bytes=2**53 + 1),
        replace(evaluated(100, score, 1 / 3, final=True), measures=MEASURES, seconds=1e-9),
        Examined(
            time=STARTED + 101,
            step=100,
            distribution="in_distribution",
            returns=(1.0, 2.0, 3.0),
            lengths=(2**40, 1),
            seconds=0.5,
            measures={},
        ),
        ended(Ending.COMPLETED),
    ]


@pytest.fixture
def experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stored:
    """Two labels with runs of every ending, and a catalogue that may hold few and new runs."""
    monkeypatch.setattr(catalogue, "FEWEST", 1)
    monkeypatch.setattr(catalogue, "SETTLED", -3600.0)
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "home"))
    experiment = stored(
        Layout(tmp_path / "runs"), "alpha", *map(configuration, LABELS), test=8, failures="worst"
    )
    for shift, label in enumerate(LABELS):
        for seed in range(4):
            experiment.complete(seed, 10.0 * seed + shift, label=label)
        experiment.attempt(4, failed(), label=label)
        experiment.attempt(5, unusual(30.0 + shift), label=label)
        experiment.attempt(
            6, [evaluated(50, 1.0, 2.0), ended(Ending.INTERRUPTED, 60)], label=label
        )
        experiment.attempt(6, [Continued(time=STARTED, step=50, attempt=1)], label=label)
        experiment.attempt(7, failed(Failure.CRASHED), label=label)
        experiment.attempt(7, [evaluated(50, 3.0), ended(Ending.PRUNED, 50)], label=label)
    return experiment


def sealed(experiment: Stored) -> None:
    """Enter every ended attempt in the ledger."""
    LedgerWriter(experiment.paths).enter_late()


def workspace_of(experiment: Stored) -> Workspace:
    """The workspace of an experiment."""
    return study(experiment.paths.folder.parents[1])


def records(experiment: Stored, *, catalogued: bool, logged: bool = False) -> dict[str, RunRecord]:
    """The records of all runs by name."""
    measured = (lambda *_: True) if logged else None
    runs = survey(experiment.paths, catalogued=catalogued, measured=measured).runs
    return {run.name: run.stored.record for run in runs if run.stored is not None}


def journals_opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the runs whose journals are opened from now on."""
    opened: list[str] = []
    original_open = os.open

    def record_and_open(path: Any, *arguments: Any, **options: Any) -> int:
        if str(path).endswith("events.jsonl"):
            opened.append(Path(path).parents[2].name)
        return original_open(path, *arguments, **options)

    monkeypatch.setattr(os, "open", record_and_open)
    return opened


def test_records_from_the_catalogue_are_those_of_the_journals(
    experiment: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record with its curves is the same, bit for bit, and no journal of an ended run is opened."""
    expected = records(experiment, catalogued=False)
    assert not experiment.paths.curves.exists()
    assert repr(records(experiment, catalogued=True)) == repr(expected)
    opened = journals_opened(monkeypatch)
    # The texts of numbers differ wherever their bits do, other than those of NaN.
    assert repr(records(experiment, catalogued=True)) == repr(expected)
    unfinished = {experiment.run(6, label).folder.name for label in LABELS}
    assert set(opened) == unfinished


def test_what_learners_logged_comes_from_the_catalogue(
    experiment: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logged values are those of the journals, from the second command on that reads them."""
    expected = records(experiment, catalogued=False, logged=True)
    assert sum(len(record.measurements) for record in expected.values()) == 3 * len(LABELS)
    curves_only = repr(records(experiment, catalogued=True))
    assert repr(records(experiment, catalogued=True, logged=True)) == repr(expected)
    opened = journals_opened(monkeypatch)
    assert repr(records(experiment, catalogued=True, logged=True)) == repr(expected)
    assert repr(records(experiment, catalogued=True)) == curves_only
    assert set(opened) == {experiment.run(6, label).folder.name for label in LABELS}


@pytest.mark.parametrize(
    ("most", "logged", "kept"), [(0, False, 0), (0.8, False, 1), (2, True, 1)]
)
def test_large_curves_are_kept_without_what_learners_logged(
    experiment: Stored, monkeypatch: pytest.MonkeyPatch, most: float, logged: bool, kept: int
) -> None:
    """Where all numbers are too many, those of learners are left out first, and then the file."""
    for seed in (10, 11):
        events = [Measured(time=1.0, step=n, metrics={"x": float(n)}) for n in range(900)]
        experiment.attempt(seed - 7, [*events, ended(Ending.COMPLETED)])
    expected = repr(records(experiment, catalogued=False, logged=True))
    size = 2 * 900 * 4 * 8
    monkeypatch.setattr(curves, "MOST_BYTES", int(most * size))
    assert repr(records(experiment, catalogued=True, logged=True)) == expected
    assert experiment.paths.curves.exists() == bool(kept)
    assert repr(records(experiment, catalogued=True, logged=True)) == expected
    opened = journals_opened(monkeypatch)
    records(experiment, catalogued=True, logged=True)
    assert (experiment.run(0).folder.name not in opened) == logged


def test_verification_reads_every_journal(
    experiment: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`verify` opens the journals of runs whose curves are in the catalogue."""
    sealed(experiment)
    records(experiment, catalogued=True)
    opened = journals_opened(monkeypatch)
    rlexp(experiment.paths.folder.parents[1], "verify", "alpha")
    assert set(opened) == set(records(experiment, catalogued=False))


def test_a_report_of_a_bundle_reads_every_journal(
    experiment: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the catalogue, a report reads every run from its files, and writes no file."""
    workspace = workspace_of(experiment)
    parts = read_report((), workspace.folder, workspace.allowed)
    request, read = ReportRequest(targets=("alpha",)), list[str]()
    of_files = experiment_scan.read_intact

    def counted(run: RunPaths, *, measurements: bool = False) -> StoredRun:
        read.append(run.folder.name)
        return of_files(run, measurements=measurements)

    monkeypatch.setattr(experiment_scan, "read_intact", counted)
    compute_report(request, parts, workspace, catalogued=False)
    assert not experiment.paths.curves.exists()
    assert len(set(read)) == 16
    compute_report(request, parts, workspace)
    assert experiment.paths.curves.exists()
    read.clear()
    compute_report(request, parts, workspace)
    assert len(set(read)) == len(LABELS)
    read.clear()
    compute_report(request, parts, workspace, catalogued=False)
    assert len(set(read)) == 16


def files_of(experiment: Stored, folder: Path) -> dict[str, bytes]:
    """The files of a new report in every format, and the document of a comparison."""
    workspace = workspace_of(experiment)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(experiment.paths.folder.parents[1] / "home", ignore_errors=True)
    workspace.layout.looks.unlink(missing_ok=True)
    formats = ("html", "latex", "csv", "json", "md")
    report(ReportRequest(targets=("alpha",), formats=formats, output=str(folder)), workspace)
    compared = json.dumps(document(compare(CompareRequest(targets=("alpha",)), workspace)))
    names = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in names.items()} | {
        "compare": compared.encode()
    }


def test_reports_from_the_catalogue_have_the_same_bytes(
    experiment: Stored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every file of a report, and a comparison, are the same with and without the catalogue."""
    sealed(experiment)
    with monkeypatch.context() as patch:
        patch.setattr(catalogue, "FEWEST", 10**9)
        expected = files_of(experiment, tmp_path / "report")
    assert not experiment.paths.curves.exists()
    assert len(expected) > 5
    assert files_of(experiment, tmp_path / "report") == expected
    assert experiment.paths.curves.exists()
    assert files_of(experiment, tmp_path / "report") == expected


def edit_unnoticed(path: Path, before: bytes, after: bytes) -> None:
    """Change a file, and restore its times."""
    times, content = path.stat(), path.read_bytes()
    assert before in content
    path.write_bytes(content.replace(before, after))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def test_an_edited_journal_is_noticed(experiment: Stored) -> None:
    """An edit of a journal that restores its size and times shows in its curve, and is reported."""
    sealed(experiment)
    records(experiment, catalogued=True)
    journal = experiment.run(1).attempt(1).journal
    edit_unnoticed(journal, b'"returns":[2.5,5.0]', b'"returns":[9.5,9.0]')
    read = records(experiment, catalogued=True)[experiment.run(1).folder.name]
    assert read.evaluations[0].returns == (9.5, 9.0)
    folder = experiment.paths.folder.parents[1]
    assert "differs from the ledger" in str(rlexp(folder, "compare", "alpha"))
    assert "1 run differs from the ledger" in str(load(experiment.paths.folder).problems)


def test_curves_are_older_than_the_catalogue(experiment: Stored) -> None:
    """Curves are those of the journal where the catalogue was written again after an edit."""
    records(experiment, catalogued=True)
    journal = experiment.run(1).attempt(1).journal
    edit_unnoticed(journal, b'"returns":[2.5,5.0]', b'"returns":[9.5,9.0]')
    survey(experiment.paths, brief=True)
    read = records(experiment, catalogued=True)[experiment.run(1).folder.name]
    assert read.evaluations[0].returns == (9.5, 9.0)


def change_header(experiment: Stored, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the line of JSON in the file of curves, with a correct checksum."""
    _, text, numbers = experiment.paths.curves.read_bytes().split(b"\n", 2)
    header = json.loads(text)
    change(header)
    content = json.dumps(header).encode() + b"\n" + numbers
    experiment.paths.curves.write_bytes(sha256(content).hexdigest().encode() + b"\n" + content)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda experiment: experiment.paths.curves.unlink(),
        lambda experiment: experiment.paths.curves.write_bytes(b""),
        lambda experiment: os.truncate(experiment.paths.curves, 2_000),
        lambda experiment: change_header(experiment, dict.clear),
        lambda experiment: change_header(experiment, lambda header: header.update({"of": "0"})),
        lambda experiment: change_header(experiment, lambda header: header.update(rows=[1])),
        lambda experiment: change_header(experiment, lambda header: header.update(names=[[7]])),
        lambda experiment: change_header(experiment, lambda header: header.update(names=[])),
        lambda experiment: change_header(
            experiment, lambda header: header.update(stamps=[[0]] * len(header["runs"]))
        ),
        lambda experiment: change_header(
            experiment,
            lambda header: header.update(rows=[-1 - n for n in header["rows"]]),
        ),
        lambda experiment: change_header(
            experiment,
            lambda header: header.update(checkpoints={key: [{}] for key in header["runs"]}),
        ),
    ],
)
def test_damaged_curves_are_read_again(
    experiment: Stored, spoil: Callable[[Stored], object]
) -> None:
    """Curves that are missing, cut, of another version or senseless come from the journals."""
    expected = repr(records(experiment, catalogued=True))
    spoil(experiment)
    assert repr(records(experiment, catalogued=True)) == expected


def test_a_journal_with_unusual_values_is_read(experiment: Stored) -> None:
    """Numbers of more than 64 bits stay as they are: such a run is not kept."""
    journal = experiment.run(2).attempt(1).journal
    edit_unnoticed(journal, b'"lengths":[1,1]', b'"lengths":[1,%d]' % 2**80)
    expected = repr(records(experiment, catalogued=False))
    assert str(2**80) in expected
    assert repr(records(experiment, catalogued=True)) == expected
    assert repr(records(experiment, catalogued=True)) == expected


def test_the_runs_of_a_sweep_come_from_the_catalogue(
    experiment: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a sweep is continued from has its curves without a look at journals of ended runs."""
    expected = {s.record.spec.name: repr(s.record) for s in read_runs(experiment.paths)}
    opened = journals_opened(monkeypatch)
    again = {s.record.spec.name: repr(s.record) for s in read_runs(experiment.paths)}
    assert again == expected
    assert set(opened) == {experiment.run(6, label).folder.name for label in LABELS}
