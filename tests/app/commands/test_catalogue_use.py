"""The catalogue of an experiment makes commands faster and does not change their output."""

import json
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from command_line import rlexp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from quick_parts import quick_parts
from stored_runs import (
    STARTED,
    Stored,
    completed,
    configuration,
    ended,
    evaluated,
    failed,
    stored,
    study,
)

from rlexp.app.commands.look.list_runs import ListRequest, list_runs
from rlexp.app.commands.look.show import ShowPart, show
from rlexp.app.commands.look.status import status
from rlexp.app.commands.train.resume import ResumeOutcome, resume
from rlexp.app.execution.launch_settings import LaunchOptions
from rlexp.app.observer import SilentObserver
from rlexp.app.reading import run_memory
from rlexp.app.reading.experiment_scan import ScanMemory, survey
from rlexp.app.reading.headline_aggregate import HeadlineAggregate
from rlexp.app.reading.summary import read_entries, summarise
from rlexp.app.reporting.build import card_context_of, card_of
from rlexp.app.reporting.evidence import collect_evidence
from rlexp.app.reporting.next_commands import card_and_sequential
from rlexp.app.results import Result, document
from rlexp.app.workspace import Workspace
from rlexp.config.report_settings import read_report
from rlexp.protocol.seeds import Phase
from rlexp.records.events import Checkpointed, Continued, Ending, Failure, Refused
from rlexp.store import catalogue
from rlexp.store.files import publish_json
from rlexp.store.layout import Layout
from rlexp.store.ledger_writer import entered_attempts, seal_ended_attempts
from rlexp.store.registers.scorings import write_scoring
from rlexp.store.runs import read_experiment

quick = pytest.fixture(autouse=True)(quick_parts)

SCORES = (10.0, 20.0, 30.0)


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let the catalogue hold few runs and trust files that were written just now."""
    monkeypatch.setattr(catalogue, "FEWEST", 1)
    monkeypatch.setattr(catalogue, "SETTLED", -3600.0)
    monkeypatch.setattr(run_memory, "SETTLED", -3600.0)
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "home"))


@pytest.fixture
def experiment(tmp_path: Path, eager: None) -> Stored:
    """Runs of every ending, one with two attempts, and one with a torn journal."""
    experiment = stored(Layout(tmp_path / "runs"), test=9)
    for seed, score in enumerate(SCORES):
        experiment.complete(seed, score)
    experiment.attempt(3, failed())
    experiment.attempt(4, failed(Failure.CRASHED, "the machine failed"))
    experiment.attempt(5, [evaluated(50, 1.0, 2.0), ended(Ending.INTERRUPTED, 60)])
    experiment.attempt(6, [evaluated(50, 1.0, 2.0), ended(Ending.PRUNED, 50, reason="slow")])
    experiment.attempt(7, [evaluated(50, 1.0), Checkpointed(time=STARTED, step=50, name="50")])
    experiment.attempt(
        7,
        [
            Refused(time=STARTED, step=80, reason="it is damaged"),
            Continued(time=STARTED, step=50, attempt=1, drift="numpy"),
            evaluated(100, 5.0),
            replace(evaluated(100, 5.0, final=True), measures={"cost": (0.1,)}),
            ended(Ending.COMPLETED),
        ],
    )
    torn = experiment.complete(8, 40.0).attempt(1).journal
    torn.write_bytes(torn.read_bytes() + b'{"event": "me')
    return experiment


def results_of(experiment: Stored) -> list[Any]:
    """The results of commands that read an experiment."""
    workspace = study(experiment.paths.folder.parents[1])
    results: list[Result] = [
        list_runs(ListRequest("alpha"), workspace),
        list_runs(ListRequest(group=True), workspace),
        show("alpha", ShowPart.RESULT, workspace),
        status("alpha", workspace),
    ]
    entries = read_entries(experiment.paths, experiment.experiment, Phase.TEST)
    summary = summarise(
        experiment.paths,
        experiment.experiment,
        Phase.TEST,
        entries,
        HeadlineAggregate(),
    )
    return [*map(document, results), summary]


def without_catalogue(experiment: Stored) -> list[Any]:
    """The results after the catalogue was deleted."""
    experiment.paths.catalogue.unlink(missing_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalogue, "FEWEST", 10**9)
        return results_of(experiment)


def catalogue_rows(experiment: Stored) -> dict[str, Any]:
    """The content of a catalogue."""
    content: dict[str, Any] = json.loads(experiment.paths.catalogue.read_bytes().split(b"\n")[1])
    return content


def write(experiment: Stored, rows: Any) -> None:
    """Write a catalogue with a correct checksum."""
    content = json.dumps(rows).encode()
    experiment.paths.catalogue.write_bytes(sha256(content).hexdigest().encode() + b"\n" + content)


def test_ended_runs_are_catalogued_with_the_same_results(
    experiment: Stored,
) -> None:
    """Ended runs are catalogued, and results from the catalogue are the same."""
    expected = without_catalogue(experiment)
    assert results_of(experiment) == expected
    names = {experiment.run(seed).folder.name for seed in (0, 1, 2, 3, 6, 7, 8)}
    assert set(catalogue_rows(experiment)["runs"]["name"]) == names
    assert results_of(experiment) == expected


def resume_everything(workspace: Workspace) -> ResumeOutcome:
    """What a resumption of every unfinished experiment would do."""
    return resume([], LaunchOptions(dry_run=True), workspace, SilentObserver())


READERS: list[Callable[[Workspace], object]] = [
    lambda workspace: list_runs(ListRequest("alpha"), workspace),
    lambda workspace: show("alpha", ShowPart.RESULT, workspace),
    lambda workspace: card_and_sequential("alpha", None, workspace),
    resume_everything,
]
"""What reads ended runs from the catalogue."""


@pytest.mark.parametrize("read", READERS)
def test_journals_of_catalogued_runs_are_not_opened(
    experiment: Stored, monkeypatch: pytest.MonkeyPatch, read: Callable[[Workspace], object]
) -> None:
    """With a catalogue, no journal of an ended run is opened."""
    results_of(experiment)
    opened: list[str] = []
    original_open = os.open

    def record_and_open(path: Any, *arguments: Any, **options: Any) -> int:
        opened.append(str(path))
        return original_open(path, *arguments, **options)

    monkeypatch.setattr(os, "open", record_and_open)
    read(study(experiment.paths.folder.parents[1]))
    journals = {Path(p).parents[2].name for p in opened if p.endswith("events.jsonl")}
    assert journals == {experiment.run(seed).folder.name for seed in (4, 5)}


@pytest.mark.parametrize("labels", [2, 13])
def test_the_card_of_catalogued_runs_is_that_of_their_journals(
    tmp_path: Path, eager: None, labels: int
) -> None:
    """The card of an experiment is the same from the catalogue as from the journals."""
    names = [f"label{number}" for number in range(labels)]
    experiment = stored(Layout(tmp_path / "runs"), "alpha", *map(configuration, names), test=4)
    for number, name in enumerate(names):
        for seed in range(3):
            experiment.complete(seed, number + seed / 4, label=name)
        experiment.attempt(3, failed(), label=name)
    workspace = study(tmp_path)
    first, _ = card_and_sequential("alpha", None, workspace)
    assert experiment.paths.catalogue.exists()
    again, _ = card_and_sequential("alpha", None, workspace)
    evidence = collect_evidence(("alpha",), None, workspace)
    assert all(m.record.evaluations for m in evidence.members if m.score is not None)
    parts = read_report(("section=[]",), workspace.folder, workspace.allowed)
    expected = card_of(card_context_of(evidence, parts))
    assert first == again == expected


def test_a_resumption_sees_what_changed_since_the_catalogue(tmp_path: Path, eager: None) -> None:
    """A run that lost its end, or its folder, is unfinished whatever the catalogue says."""
    experiment = stored(Layout(tmp_path / "runs"), test=3)
    for seed, score in enumerate(SCORES):
        experiment.complete(seed, score)
    workspace = study(tmp_path)
    finished = resume_everything(workspace), resume_everything(workspace)
    assert all(not outcome.parts and not outcome.errors for outcome in finished)
    os.truncate(experiment.run(2).attempt(1).journal, 200)
    changed = resume_everything(workspace)
    assert changed.parts or changed.errors
    experiment.attempt(2, completed(30.0))
    assert not resume_everything(workspace).errors
    shutil.rmtree(experiment.run(1).folder)
    gone = resume_everything(workspace)
    assert gone.parts or gone.errors


def test_commands_at_once_build_one_catalogue(experiment: Stored) -> None:
    """Commands that read an experiment at the same time give what one of them gives alone."""
    expected = without_catalogue(experiment)
    with ThreadPoolExecutor(3) as pool:
        together = list(pool.map(lambda _: results_of(experiment), range(3)))
    assert together == [expected] * 3
    assert results_of(experiment) == expected


def change(experiment: Stored, column: str, new_value: Callable[[Any], Any]) -> None:
    """Change a column of the catalogue."""
    content = catalogue_rows(experiment)
    content["runs"][column] = [new_value(value) for value in content["runs"][column]]
    write(experiment, content)


def link(experiment: Stored) -> None:
    """Replace the catalogue by a link."""
    target = experiment.paths.folder / "elsewhere"
    experiment.paths.catalogue.rename(target)
    experiment.paths.catalogue.symlink_to(target)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda experiment: experiment.paths.catalogue.unlink(),
        lambda experiment: experiment.paths.catalogue.write_bytes(b""),
        lambda experiment: experiment.paths.catalogue.write_bytes(b"\x80\x04garbage\xff\n" * 99),
        lambda experiment: os.truncate(
            experiment.paths.catalogue,
            experiment.paths.catalogue.stat().st_size // 2,
        ),
        lambda experiment: write(experiment, []),
        lambda experiment: write(
            experiment,
            {**catalogue_rows(experiment), "schema": 3},
        ),
        lambda experiment: write(
            experiment,
            {**catalogue_rows(experiment), "of": "1, rlexp 0.0"},
        ),
        lambda experiment: write(
            experiment,
            {**catalogue_rows(experiment), "runs": {}},
        ),
        lambda experiment: write(
            experiment,
            {**catalogue_rows(experiment), "configurations": []},
        ),
        lambda experiment: write(
            experiment,
            {**catalogue_rows(experiment), "configurations": [{"agent": 1}]},
        ),
        lambda experiment: change(experiment, "score", lambda _: "12"),
        lambda experiment: change(experiment, "state", lambda _: "\x1b[31mrunning"),
        lambda experiment: change(experiment, "seed", lambda seed: seed + 1),
        lambda experiment: change(experiment, "continuations", lambda _: [{"event": "ended"}]),
        lambda experiment: change(experiment, "attempts", lambda _: 10**18),
        lambda experiment: change(experiment, "configuration", lambda _: 7),
        lambda experiment: change(experiment, "provenance", lambda _: 7),
        lambda experiment: change(experiment, "entered", lambda _: 1),
        lambda experiment: write(
            experiment,
            {**catalogue_rows(experiment), "provenances": [7]},
        ),
        lambda experiment: write(
            experiment,
            {**catalogue_rows(experiment), "ledger": "new"},
        ),
        lambda experiment: write(
            experiment,
            {**catalogue_rows(experiment), "stamps": "AAAA"},
        ),
        lambda experiment: write(
            experiment,
            {**catalogue_rows(experiment), "stamps": 7},
        ),
        lambda experiment: change(experiment, "attempts", lambda _: -1),
        link,
    ],
)
def test_a_damaged_catalogue_is_rebuilt(
    experiment: Stored, spoil: Callable[[Stored], object]
) -> None:
    """A missing, truncated, invalid or outdated catalogue is written again."""
    expected = without_catalogue(experiment)
    results_of(experiment)
    rows = catalogue_rows(experiment)
    spoil(experiment)
    assert results_of(experiment) == expected
    assert catalogue_rows(experiment) == rows


@given(st.data())
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_changed_bytes_of_a_catalogue_change_no_result(
    experiment: Stored, data: st.DataObject
) -> None:
    """Changed bytes of the catalogue do not change results."""
    expected = without_catalogue(experiment)
    results_of(experiment)
    content = bytearray(experiment.paths.catalogue.read_bytes())
    for location in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=9)):
        content[location] ^= data.draw(st.integers(1, 255))
    experiment.paths.catalogue.write_bytes(content)
    assert results_of(experiment) == expected


def edit_unnoticed(path: Path, before: bytes, after: bytes) -> None:
    """Change a file and restore its times."""
    times = path.stat()
    path.write_bytes(path.read_bytes().replace(before, after))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


@pytest.mark.parametrize(
    "alter",
    [
        lambda experiment: edit_unnoticed(experiment.run(1).attempt(1).journal, b"21.0", b"99.0"),
        lambda experiment: experiment.run(0).attempt(1).journal.write_bytes(b""),
        lambda experiment: experiment.run(0).attempt(1).journal.unlink(),
        lambda experiment: os.truncate(experiment.run(2).attempt(1).journal, 200),
        lambda experiment: edit_unnoticed(experiment.run(1).spec, b'"seed": 1', b'"seed": 2'),
        lambda experiment: experiment.run(1).spec.unlink(),
        lambda experiment: experiment.attempt(3, failed(reason="again")),
        lambda experiment: shutil.rmtree(experiment.run(7).attempt(1).folder),
        lambda experiment: shutil.rmtree(experiment.run(2).folder),
        lambda experiment: experiment.run(2).folder.rename(
            experiment.run(2).folder.with_name("other")
        ),
        lambda experiment: os.utime(experiment.run(0).attempt(1).journal),
        lambda experiment: experiment.run(0).attempt(1).provenance.write_text("{}"),
        lambda experiment: experiment.run(7).attempt(2).provenance.unlink(missing_ok=True),
        lambda experiment: shutil.copytree(
            experiment.run(0).folder,
            experiment.paths.folder / "copy",
        ),
        lambda experiment: experiment.run(4).attempt(1).verdict.write_text("{}"),
    ],
)
def test_a_change_of_a_catalogued_run_is_detected(
    experiment: Stored, alter: Callable[[Stored], object]
) -> None:
    """A changed run gives new results, also if the size and times of its files are the same."""
    results_of(experiment)
    alter(experiment)
    results = results_of(experiment)
    assert results == without_catalogue(experiment)


def test_the_provenance_of_a_catalogued_run_is_that_of_its_file(experiment: Stored) -> None:
    """The catalogue gives the provenance of a run as it is in the file now."""
    workspace = study(experiment.paths.folder.parents[1])
    path = experiment.run(0).attempt(1).provenance

    def host() -> object:
        evidence = collect_evidence(("alpha",), None, workspace, brief=True)
        (member,) = (m for m in evidence.members if m.record.spec.seed == 0)
        return member.provenance.get("machine", {}).get("system")

    for system in ("first", "second"):
        publish_json(path, {"machine": {"system": system}})
        assert [host(), host()] == [system, system]
    assert system in str(catalogue_rows(experiment)["provenances"])
    path.unlink()
    assert host() is None


def test_entries_of_a_scan_are_those_that_are_read(tmp_path: Path, eager: None) -> None:
    """A scan of an experiment gives the same summary as its runs when they are read again."""
    experiment = stored(Layout(tmp_path / "runs"), test=3)
    for seed, score in enumerate(SCORES):
        experiment.complete(seed, score)
    definition = read_experiment(experiment.paths)
    read = read_entries(experiment.paths, definition, Phase.TEST)
    scanned = survey(experiment.paths, brief=True).entries_of(definition, Phase.TEST)
    assert scanned == read
    summaries = [
        summarise(experiment.paths, definition, Phase.TEST, entries, HeadlineAggregate())
        for entries in (scanned, read)
    ]
    assert summaries[0] == summaries[1]
    assert summaries[0].cells[0].planned == 3
    other = replace(definition, failures="worst")
    assert survey(experiment.paths, brief=True).entries_of(other, Phase.TEST) is None
    experiment.run(1).spec.write_text("damaged")
    assert survey(experiment.paths, brief=True).entries_of(definition, Phase.TEST) is None


def test_attempts_are_looked_up_in_the_ledger_until_all_are_in_it(
    tmp_path: Path, eager: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A catalogue shows that all attempts are entered, until the ledger or a run changes."""
    experiment = stored(Layout(tmp_path / "runs"), test=3)
    for seed, score in enumerate(SCORES):
        experiment.complete(seed, score)

    def all_entered() -> bool:
        return survey(experiment.paths, brief=True).all_entered

    def entered() -> dict[str, set[int]]:
        return entered_attempts(experiment.paths)

    assert [all_entered(), all_entered()] == [False, False]
    seal_ended_attempts(experiment.paths, now=STARTED)
    assert entered() == {experiment.run(seed).folder.name: {1} for seed in range(3)}
    # The catalogue was made before the ledger.
    assert not all_entered()
    experiment.paths.catalogue.unlink()
    assert [all_entered(), all_entered()] == [False, True]
    os.utime(experiment.paths.ledger)
    assert not all_entered()
    experiment.paths.catalogue.unlink()
    assert [all_entered(), all_entered()] == [False, True]
    experiment.attempt(1, completed(7.0))
    assert not all_entered()


def test_a_forged_catalogue_prints_no_escape_codes(experiment: Stored) -> None:
    """Control characters in a forged catalogue are not printed."""
    results_of(experiment)
    change(experiment, "reason", lambda _: "\x1b[31mred\x07")
    folder = experiment.paths.folder.parents[1]
    printed = rlexp(folder, "show", "alpha").out + rlexp(folder, "ls", "alpha").out
    assert "red" in printed
    assert "\x1b" not in printed
    assert "\x07" not in printed


def test_the_catalogue_is_in_the_cache_if_the_folder_is_read_only(
    experiment: Stored, tmp_path: Path
) -> None:
    """A catalogue that cannot be written beside the runs is in the cache of the user."""
    expected = without_catalogue(experiment)
    experiment.paths.catalogue.mkdir()
    assert results_of(experiment) == expected
    (cached,) = (tmp_path / "home" / "rlexp" / "catalogues").iterdir()
    written_at = cached.stat().st_mtime_ns
    assert results_of(experiment) == expected
    assert cached.stat().st_mtime_ns == written_at


def test_a_recently_changed_file_is_read_again(
    experiment: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recently changed files are not catalogued, because their times may not show a change."""
    monkeypatch.setattr(catalogue, "SETTLED", 60.0)
    results_of(experiment)
    assert not experiment.paths.catalogue.exists()


def test_a_score_that_comes_after_the_end_of_a_run_is_seen(tmp_path: Path, eager: None) -> None:
    """A run of a stream is scored once it has ended: no reader keeps that it had no score."""
    experiment = stored(
        Layout(tmp_path / "runs"), "alpha", replace(configuration(), code="c" * 40), test=2
    )
    runs = [experiment.complete(seed, 1_000.0) for seed in (0, 1)]
    memory = ScanMemory()

    def scores() -> list[float | None]:
        entries = read_entries(experiment.paths, experiment.experiment, Phase.TEST)
        briefly = survey(experiment.paths, brief=True).runs
        in_full = survey(experiment.paths, memory=memory).runs
        found = [[s.record.score for _, s in entries]]
        found += [[r.stored.record.score for r in rs if r.stored] for rs in (briefly, in_full)]
        assert found[0] == found[1] == found[2]
        return found[0]

    assert scores() == scores() == [None, None]
    assert experiment.paths.catalogue.exists()
    write_scoring(runs[1], evaluated(100, 3.0, 5.0, final=True))
    assert scores() == [None, 4.0]
    runs[1].scoring.unlink()
    assert scores() == [None, None]
