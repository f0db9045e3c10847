"""The targets of a command give the evidence of a report."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from quick_parts import quick_parts
from stored_runs import STARTED, Stored, configuration, ended, evaluated, failed, stored, study

from rlexp.app.reading.experiment_scan import read_intact, with_measurements
from rlexp.app.reporting.evidence import (
    EvidenceMemory,
    Target,
    collect_evidence,
    read_target,
)
from rlexp.app.workspace import Workspace
from rlexp.errors import ProtocolError, RecordError
from rlexp.protocol.seeds import Phase
from rlexp.records.events import Continued, Ending, Event, Measured
from rlexp.store.runs import read_run, write_verdict

quick = pytest.fixture(autouse=True)(quick_parts)


def alpha(workspace: Workspace) -> Stored:
    """Two labels: one has three scores, and the other has a score and a failure."""
    experiment = stored(workspace.layout, "alpha", configuration("ppo"), configuration("a2c"))
    for seed in range(3):
        experiment.complete(seed, 10.0 * seed)
    experiment.complete(0, 5.0, label="a2c")
    experiment.attempt(1, failed(), label="a2c")
    return experiment


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("alpha", Target("alpha", None)),
        ("runs/alpha/", Target("alpha", None)),
        ("alpha/ppo", Target("alpha", "ppo")),
    ],
)
def test_targets_are_read(text: str, target: Target) -> None:
    """A target is an experiment, or a label of one."""
    assert target == read_target(text)


def test_planned_runs_of_an_experiment_are_collected(tmp_path: Path) -> None:
    """Runs that were never started are included."""
    alpha(study(tmp_path))
    evidence = collect_evidence(["alpha"], None, study(tmp_path))
    assert (Phase.TEST, ("ppo", "a2c"), 6) == (
        evidence.phase,
        evidence.labels,
        len(evidence.members),
    )
    a2c = evidence.cells["a2c", "CartPole-v1"]
    assert (1, 1, 1) == (len(a2c.scored), len(a2c.failed), len(a2c.missing))


def test_a_single_label_can_be_collected(tmp_path: Path) -> None:
    """A target with a label leaves out the other labels of the experiment."""
    alpha(study(tmp_path))
    assert ("a2c",) == collect_evidence(["alpha/a2c"], None, study(tmp_path)).labels


def test_an_experiment_includes_its_labels(tmp_path: Path) -> None:
    """An experiment that is named together with one of its labels is used whole."""
    alpha(study(tmp_path))
    assert ("ppo", "a2c") == collect_evidence(["alpha/a2c", "alpha"], None, study(tmp_path)).labels


def test_equal_labels_of_several_experiments_are_distinguished(tmp_path: Path) -> None:
    """The experiment's name is added where two experiments share a label."""
    workspace = study(tmp_path)
    alpha(workspace)
    stored(workspace.layout, "beta", configuration("ppo"), configuration("dqn"))
    evidence = collect_evidence(["beta", "alpha"], None, workspace)
    assert ("beta/ppo", "dqn", "alpha/ppo", "a2c") == evidence.labels


def test_an_unknown_experiment_is_refused_with_the_existing_ones(tmp_path: Path) -> None:
    """The error about an unknown experiment suggests the most similar name."""
    alpha(study(tmp_path))
    with pytest.raises(RecordError, match="did you mean 'alpha'"):
        collect_evidence(["alhpa"], None, study(tmp_path))


def test_an_unknown_label_is_refused_with_the_existing_ones(tmp_path: Path) -> None:
    """The error about an unknown label suggests the most similar label."""
    alpha(study(tmp_path))
    with pytest.raises(RecordError, match=r"no label 'pp0'; did you mean 'ppo'\? \(there are: "):
        collect_evidence(["alpha/pp0"], None, study(tmp_path))


def test_an_unreadable_definition_is_reported_in_one_line(tmp_path: Path) -> None:
    """The error about an unreadable definition names the command to use next."""
    experiment = alpha(study(tmp_path))
    experiment.paths.definition.write_text("{")
    with pytest.raises(RecordError, match="'rlexp ls alpha' lists its runs"):
        collect_evidence(["alpha"], None, study(tmp_path))


def test_test_runs_are_preferred(tmp_path: Path) -> None:
    """By default test runs are used, and runs of other phases are counted as left out."""
    experiment = alpha(study(tmp_path))
    experiment.complete(0, 99.0, phase=Phase.TUNING)
    evidence = collect_evidence(["alpha"], None, study(tmp_path))
    assert (Phase.TEST, {Phase.TUNING: 4}) == (evidence.phase, evidence.left_out)


def test_tuning_runs_are_collected_if_there_are_no_test_runs(tmp_path: Path) -> None:
    """An experiment without test runs is collected in the tuning phase."""
    experiment = stored(study(tmp_path).layout)
    experiment.complete(0, 1.0, phase=Phase.TUNING)
    assert Phase.TUNING is collect_evidence(["alpha"], None, study(tmp_path)).phase


def test_phases_are_never_combined(tmp_path: Path) -> None:
    """Two targets without a common phase are refused, and the message names their phases."""
    workspace = study(tmp_path)
    alpha(workspace)
    stored(workspace.layout, "beta").complete(0, 1.0, phase=Phase.TUNING)
    with pytest.raises(ProtocolError, match="alpha has test runs; beta has tuning runs"):
        collect_evidence(["alpha", "beta"], None, workspace)


def test_a_requested_phase_without_runs_is_empty(tmp_path: Path) -> None:
    """A requested phase without runs gives no evidence from another phase."""
    alpha(study(tmp_path))
    assert () == collect_evidence(["alpha"], Phase.SELECTION, study(tmp_path)).members


def test_a_damaged_run_is_kept_with_its_problem(tmp_path: Path) -> None:
    """A damaged run still counts as planned."""
    experiment = alpha(study(tmp_path))
    experiment.run(1).spec.write_text("{")
    evidence = collect_evidence(["alpha"], None, study(tmp_path))
    damaged = [m for m in evidence.members if m.problem]
    assert [("ppo", 1)] == [(m.label, m.record.spec.seed) for m in damaged]
    assert 6 == len(evidence.members)
    assert evidence.problems[0].startswith("alpha: ")


def test_provenance_is_that_of_the_last_attempt(tmp_path: Path) -> None:
    """A run without attempts has no provenance, and damaged provenance does not drop a score."""
    experiment = alpha(study(tmp_path))
    experiment.attempt(1, failed(), label="a2c", provenance={"command": ["second"]})
    experiment.run(0).attempts()[-1].provenance.write_text("{")
    cells = collect_evidence(["alpha"], None, study(tmp_path)).cells
    ppo, a2c = (cells[label, "CartPole-v1"].members for label in ("ppo", "a2c"))
    assert ["second"] == a2c[1].provenance["command"]
    assert ({}, {}, 0.0) == (a2c[2].provenance, ppo[0].provenance, ppo[0].score)


def test_secrets_in_provenance_are_masked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that the environment declares secret now is masked in reports."""
    experiment = stored(study(tmp_path).layout)
    experiment.attempt(0, provenance={"command": ["rlexp", "key=tellnobody99"]})
    monkeypatch.setenv("SERVICE_API_KEY", "tellnobody99")
    member = collect_evidence(["alpha"], None, study(tmp_path)).members[0]
    assert "tellnobody99" not in json.dumps(member.provenance)


def test_an_unknown_label_beside_its_whole_experiment_is_refused(tmp_path: Path) -> None:
    """A misspelt label is refused even if its whole experiment is named too."""
    workspace = study(tmp_path)
    stored(workspace.layout, "alpha", configuration("ppo"), configuration("a2c"))
    with pytest.raises(RecordError, match="alpha has no label 'ppx'; did you mean 'ppo'"):
        collect_evidence(["alpha/ppx", "alpha"], None, workspace)


@pytest.mark.parametrize(
    "damage",
    [
        *({"code": 7}, {"packages": ["x"]}, {"machine": "here"}, {"command": 7}),
        *({"code": {"branch": {}}}, {"code": {"dirty": 1}}, {"code": {"untracked": [[]]}}),
        *({"machine": {"memory": "x"}}, {"machine": {"system": []}}, {"packages": {"x": {}}}),
    ],
)
def test_malformed_provenance_is_ignored(tmp_path: Path, damage: dict[str, object]) -> None:
    """A run with malformed provenance keeps its score and has no provenance."""
    workspace = study(tmp_path)
    experiment = stored(workspace.layout, "alpha", test=1)
    run = experiment.complete(0, 5.0)
    path = run.attempts()[0].provenance
    path.write_text(json.dumps({**json.loads(path.read_text()), **damage}))
    (member,) = collect_evidence(["alpha"], None, workspace).members
    assert (5.0, {}) == (member.score, member.provenance)


LOGGED = b'{"event":"measured","time":1.0,"step":170,"metrics":{"loss":0.5}}\n'


@pytest.mark.parametrize(
    "lines",
    [
        b"",
        LOGGED,
        b'{"event":"measured","time":1.0,"st\n' + LOGGED,
        b'{"event":"measured","schema":999,"time":1.0,"step":70,"metrics":{}}\n',
        b'{ "event":"measured","time":1.0,"step":90,"metrics":{"loss":0.5}}\n',
        b'{"event":"measured","time":1.0,"step":-70,"metrics":{"loss":[]}}\n',
        b"\xff{}\n" + LOGGED + b'{"event":"measured"\n',
    ],
)
@pytest.mark.parametrize("after", [b"", LOGGED])
def test_measurements_are_read_together_with_their_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: bytes, after: bytes
) -> None:
    """A report opens a journal once, and nothing but the measurements of a record depends on them."""
    experiment = stored(study(tmp_path).layout, test=1)
    logged = [Measured(time=STARTED, step=s, metrics={"loss": s / 10}) for s in (20, 60, 80)]
    experiment.attempt(0, [*logged, evaluated(50, 1.0, 2.0)])
    later: list[Event] = [
        Continued(time=STARTED, step=50, attempt=1),
        logged[1],
        evaluated(100, 5.0),
    ]
    run = experiment.attempt(0, [*later, evaluated(100, 5.0, final=True), ended(Ending.COMPLETED)])
    journal = run.attempt(2).journal
    start, end = journal.read_bytes().rsplit(b"\n", 2)[:2]
    journal.write_bytes(b"\n".join([start, lines + end, after]))
    write_verdict(run.attempt(2), ended(Ending.FAILED))
    briefly, expected = read_intact(run), with_measurements(read_run(run))
    opened: list[str] = []
    original_open = os.open

    def record_and_open(path: Any, *arguments: Any, **options: Any) -> int:
        opened.append(str(path))
        return original_open(path, *arguments, **options)

    monkeypatch.setattr(os, "open", record_and_open)
    once = EvidenceMemory(lasting=False)
    (member,) = collect_evidence(
        ["alpha"], None, study(tmp_path), measurements=True, memory=once
    ).members
    monkeypatch.undo()
    assert member.record == expected
    assert (briefly.torn, briefly.quarantined) == (
        (read := read_intact(run, measurements=True)).torn,
        read.quarantined,
    )
    if b"999" not in lines and not after:
        assert opened.count(str(journal)) == 1
