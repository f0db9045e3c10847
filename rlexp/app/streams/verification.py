"""Examines the register of a stream: the chain, and whether each decision follows from the scores."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from rlexp.app.streams.handed_scoring import answer_of, read_answer
from rlexp.app.streams.judging import design_of
from rlexp.errors import RecordError
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.seeds import Phase
from rlexp.records.integrity import SHORT
from rlexp.records.stream import (
    CandidateDecision,
    ScoredRun,
    StreamBeginning,
    StreamRegister,
)
from rlexp.stats.sequential.candidates import StreamDesign, candidate_level, judge
from rlexp.store.layout import ExperimentPaths
from rlexp.store.registers.scorings import read_scoring
from rlexp.store.registers.streams import is_stream, read_stream
from rlexp.store.runs import read_experiment
from rlexp.store.sweeps import StoredTrial, read_selection, read_trials
from rlexp.text import format_count


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedStream:
    """The register of a stream, whose chain and decisions were checked.

    Attributes:
        study: The name of the stream.
        candidates: Number of candidates in the register.
        head: The sha256 of its last line; null if it has no line.
        faults: What was changed, as sentences.
        remarks: Other findings on the register.
        verdict: The result as a sentence.
    """

    study: str
    candidates: int
    head: str | None
    faults: tuple[str, ...]
    remarks: tuple[str, ...]
    verdict: str


def verify_stream(paths: ExperimentPaths) -> VerifiedStream | None:
    """Examine the register of a stream; None for any other experiment."""
    try:
        experiment = read_experiment(paths)
    except RecordError:
        experiment = None
    stream = experiment is not None and experiment.sweep is not None and experiment.sweep.is_stream
    if not stream and not is_stream(paths):
        return None
    try:
        register = read_stream(paths)
        faults = (*register.breaks, *_faults(paths, register, experiment))
    except RecordError as error:
        register, faults = StreamRegister(), (str(error),)
    count = format_count(len(register.candidates), "candidate")
    decided = format_count(len(register.decisions), "decision")
    head = f" (head {register.head[:SHORT]})" if register.head else ""
    return VerifiedStream(
        study=paths.name,
        candidates=len(register.candidates),
        head=register.head,
        faults=faults,
        remarks=("its last line is incomplete: the next command replaces it",) * register.torn,
        verdict=f"stream {paths.name}: {count}, {decided}{head}",
    )


def _faults(
    paths: ExperimentPaths, register: StreamRegister, experiment: Experiment | None
) -> Iterator[str]:
    if register.beginning is None:
        yield f"{paths.candidates.name} is missing, or has no first line"
        return
    if experiment is None or experiment.fingerprint != register.beginning.experiment:
        yield f"{paths.definition.name} is not what the stream has frozen"
        return
    trials = read_trials(paths)
    yield from _candidates(register, trials)
    yield from _decisions(register, register.beginning, experiment, trials)
    yield from _scores(paths, register)
    selection = read_selection(paths)
    if selection is not None and (
        register.closed is None or register.closed.champion != selection.winner
    ):
        yield f"{paths.selection.name} names another champion than the register"


def _candidates(register: StreamRegister, trials: list[StoredTrial]) -> Iterator[str]:
    """Candidates whose lines were cut, and trials that are not those of the register."""
    if len(trials) > len(register.candidates) + 1:
        missing = format_count(len(trials) - len(register.candidates) - 1, "candidate")
        yield f"{missing} of trials.jsonl are not in the register: lines were cut from its end"
    for trial in trials[1 : len(register.candidates) + 1]:
        candidate = register.candidates[trial.number - 1]
        now = trial.configuration
        if now is None or now.fingerprint != candidate.fingerprint:
            yield f"trial {trial.number} of trials.jsonl is not candidate {candidate.number}"


def _decisions(
    register: StreamRegister,
    beginning: StreamBeginning,
    experiment: Experiment,
    trials: list[StoredTrial],
) -> Iterator[str]:
    """Levels and decisions that do not follow from the scores in the register."""
    design, kept = design_of(beginning), 0
    for candidate in register.candidates:
        level = candidate_level(design, candidate.number, kept)
        if not math.isclose(level, candidate.level):
            yield f"candidate {candidate.number} has the level {candidate.level:g}, not {level:g}"
        decision = register.decisions.get(candidate.number)
        if decision is None:
            continue
        kept += decision.state.value == "kept"
        sides = [
            _recorded(number, decision, register, experiment, trials)
            for number in (decision.candidate, decision.champion)
        ]
        if not _follows(
            decision, sides, level, design, minimised=experiment.default.lower_is_better
        ):
            yield f"the decision about candidate {candidate.number} does not follow from its scores"


def _recorded(
    number: int,
    decision: CandidateDecision,
    register: StreamRegister,
    experiment: Experiment,
    trials: list[StoredTrial],
) -> list[float | None]:
    """The recorded scores of a candidate on the seeds of a decision."""
    configuration = trials[number].configuration if number < len(trials) else None
    if configuration is None:
        return []
    root = experiment.seeds.root
    specs = [configuration.spec(Phase.TUNING, root, seed) for seed in decision.seeds]
    return [register.scored[s.id].score if s.id in register.scored else None for s in specs]


def _follows(
    decision: CandidateDecision,
    sides: list[list[float | None]],
    level: float,
    design: StreamDesign,
    *,
    minimised: bool,
) -> bool:
    if sides != [list(decision.scores), list(decision.champion_scores)]:
        return False
    sign = -1.0 if minimised else 1.0
    proposed, other = ([math.nan if s is None else sign * s for s in side] for side in sides)
    judged = judge(proposed, other, level, design)
    computed = (
        judged.state.value,
        judged.reason.value,
        judged.seeds_used,
        judged.won,
        judged.lost,
    )
    said = (decision.state.value, decision.code, len(proposed), decision.won, decision.lost)
    return computed == said and math.isclose(judged.e_value, decision.e_value)


def _scores(paths: ExperimentPaths, register: StreamRegister) -> Iterator[str]:
    """Runs whose folder holds another score than the register."""
    for scored in register.scored.values():
        run = paths.run(scored.run)
        if answer_of(paths, scored.run).exists():
            yield from _other_answer(paths, scored)
        if not run.folder.exists():
            continue
        try:
            present = read_scoring(run)
        except RecordError as error:
            yield str(error)
            continue
        if present != scored.evaluation and (present is not None or run.scoring.exists()):
            yield f"{scored.run}/{run.scoring.name} is not the score in the register"


def _other_answer(paths: ExperimentPaths, scored: ScoredRun) -> Iterator[str]:
    """A score in the register that the worker who computed it has not given."""
    try:
        same = _numbers(read_answer(paths, scored.run)) == _numbers(scored)
    except RecordError as error:
        yield str(error)
        return
    if not same:
        yield f"the register holds another score of {scored.run} than {paths.scoring_answers.name}"


def _numbers(scored: ScoredRun) -> tuple[object, ...]:
    """What a score consists of, without the time that it took."""
    event = scored.evaluation
    played = None if event is None else (event.returns, event.lengths, repr(event.measures))
    return scored.run, scored.id, scored.policy, scored.score, played
