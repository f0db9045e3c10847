"""The register of a stream as a file: what is read back, and which lines are no register."""

from dataclasses import replace
from pathlib import Path

import pytest

from rlexp.records.events import Evaluated
from rlexp.records.stream import (
    CandidateDecision,
    CandidateSource,
    CandidateVerdict,
    OpenedCandidate,
    ScoredRun,
    StreamBeginning,
    StreamEnd,
    StreamLine,
)
from rlexp.store.layout import ExperimentPaths
from rlexp.store.registers.streams import append_to_stream, read_stream

BEGINNING = StreamBeginning(
    time=1.0,
    experiment="e",
    words=("algorithm=ppo",),
    commit=None,
    code="c",
    modules=("lamps",),
    declared=(),
    protected={"lamps.py": "0"},
    free=(),
    operational={"lean": True},
    alpha=0.05,
    seeds=16,
    horizon=None,
    margin=0.0,
)
CANDIDATE = OpenedCandidate(
    time=2.0,
    number=1,
    fingerprint="f",
    configuration={"label": "trial 1"},
    parameters={"algorithm.gamma": 0.9},
    champion=0,
    source=CandidateSource.SETTINGS,
    words=("algorithm.gamma=0.9",),
    commit=None,
    name=None,
    level=0.001,
)
SCORED = ScoredRun(
    time=3.0,
    run="ppo-tuning-0",
    id="i",
    policy="p",
    evaluation=Evaluated(time=3.0, step=9, returns=(1.0,), lengths=(2,), seconds=0.1, final=True),
    score=1.0,
    problem=None,
)
DECISION = CandidateDecision(
    time=4.0,
    candidate=1,
    champion=0,
    state=CandidateVerdict.KEPT,
    code="better",
    reason="it won",
    level=0.001,
    seeds=(0, 1),
    scores=(1.0, None),
    champion_scores=(0.0, 0.5),
    won=1,
    lost=1,
    e_value=1.0,
    threshold=1000.0,
)
END = StreamEnd(time=5.0, champion=1)


@pytest.fixture
def paths(tmp_path: Path) -> ExperimentPaths:
    """The folder of a stream."""
    (tmp_path / "s").mkdir()
    return ExperimentPaths(tmp_path / "s")


def test_a_register_is_read_as_it_was_written(paths: ExperimentPaths) -> None:
    """Every kind of line comes back with its values, and the champion follows from the decisions."""
    lines = (BEGINNING, CANDIDATE, SCORED, DECISION, END)
    for line in lines:
        append_to_stream(paths, line)
    register = read_stream(paths)
    assert (lines, ()) == (register.lines, register.breaks)
    assert (1, (1,), None, END) == (
        register.champion,
        register.kept,
        register.open,
        register.closed,
    )
    assert ("algorithm.gamma=0.9",) == register.words_of(1)


def test_a_candidate_before_a_decision_is_named(paths: ExperimentPaths) -> None:
    """A candidate that was opened while another one was open is a break of its own."""
    append_to_stream(paths, BEGINNING, CANDIDATE, replace(CANDIDATE, number=2))
    (wrong,) = read_stream(paths).breaks
    assert "candidate 2 was opened before the decision about candidate 1" in wrong


@pytest.mark.parametrize(
    "lines",
    [
        (CANDIDATE,),
        (BEGINNING, BEGINNING),
        (BEGINNING, replace(CANDIDATE, number=2)),
        (BEGINNING, CANDIDATE, replace(CANDIDATE, number=2)),
        (BEGINNING, DECISION),
        (BEGINNING, replace(CANDIDATE, champion=3)),
        (BEGINNING, replace(END, champion=0), CANDIDATE),
    ],
)
def test_an_order_that_no_command_writes_is_a_break(
    paths: ExperimentPaths, lines: tuple[StreamLine, ...]
) -> None:
    """Candidates out of turn, a second beginning and candidates after the end are found."""
    append_to_stream(paths, *lines)
    assert 1 == len(read_stream(paths).breaks)


@pytest.mark.parametrize("number", range(3))
def test_every_changed_line_is_found(paths: ExperimentPaths, number: int) -> None:
    """A changed value breaks the checksum of its line, also of the last one."""
    append_to_stream(paths, BEGINNING, CANDIDATE, SCORED)
    lines = paths.candidates.read_bytes().split(b"\n")
    lines[number] = lines[number].replace(b'"time":', b'"time":1')
    paths.candidates.write_bytes(b"\n".join(lines))
    assert any("checksum" in text for text in read_stream(paths).breaks)


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"schema":1}', '{"schema":9}', "x", '{"kind":[]}']
)
def test_lines_of_anything_else_are_named(paths: ExperimentPaths, text: str) -> None:
    """A file with other content is read without a traceback, and its line is named."""
    paths.candidates.write_text(text + "\n")
    assert any("line 1" in line for line in read_stream(paths).breaks)


def test_an_incomplete_last_line_is_replaced(paths: ExperimentPaths) -> None:
    """What a kill leaves of a line is no fault, and the next line takes its place."""
    append_to_stream(paths, BEGINNING)
    whole = paths.candidates.read_bytes()
    append_to_stream(paths, CANDIDATE)
    paths.candidates.write_bytes(paths.candidates.read_bytes()[: len(whole) + 30])
    register = read_stream(paths)
    assert (True, ()) == (register.torn, register.breaks)
    append_to_stream(paths, CANDIDATE)
    assert (BEGINNING, CANDIDATE) == read_stream(paths).lines
