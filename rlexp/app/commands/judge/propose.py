"""`rlexp propose`: judges candidates from outside against a champion, and tests the last champion."""

import shlex
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from signal import Signals

from rlexp.app.commands.judge.stream_result import StreamAnswer, StreamResult, candidate_row
from rlexp.app.observer import Observer
from rlexp.app.reporting.next_commands import card_and_sequential
from rlexp.app.results import NextCommand
from rlexp.app.streams.beginning import StreamRequest, begin_stream
from rlexp.app.streams.judging import OpenStream, alpha_spent, design_of
from rlexp.app.streams.next_commands import (
    is_full,
    missing_tests,
    needed_seeds,
    stream_commands,
)
from rlexp.app.streams.permission import check_permission, permission_of_stream
from rlexp.app.streams.proposal import (
    CandidateProposal,
    CheckedCandidate,
    check_candidate,
    check_one_way,
    earlier_number,
    read_candidate,
    refuse_changed_workspace,
)
from rlexp.app.streams.training import Checkouts, StreamTraining, executor_of, open_checkouts
from rlexp.app.workspace import Workspace
from rlexp.config.overrides import split_override
from rlexp.errors import ConfigError, RecordError
from rlexp.protocol.budget import LEAN
from rlexp.protocol.experiment import Configuration, Experiment
from rlexp.protocol.seeds import Phase
from rlexp.records.selection import DEFAULT, configuration_name
from rlexp.records.stream import (
    OpenedCandidate,
    StreamBeginning,
    StreamRegister,
)
from rlexp.reports.drawing.blocks import SummaryCard
from rlexp.stats.sequential.candidates import candidate_level, least_seeds
from rlexp.store.configurations import read_configuration
from rlexp.store.layout import ExperimentPaths
from rlexp.store.locks.lease import Lease, hold
from rlexp.store.registers.streams import intact_stream, is_stream
from rlexp.store.runs import read_experiment
from rlexp.store.sweeps import StoredTrial, append_trial, read_trials


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposeRequest:
    """A request to a stream.

    Attributes:
        study: The name of the stream.
        proposal: The candidate; empty for the other requests.
        begins: What to freeze, to begin the stream.
        final: Whether to close the stream and test its champion.
        goes_on: Whether to finish the candidate that a command before has begun.
        retry: Whether runs with a final failure are executed again before they are scored.
    """

    study: str
    proposal: CandidateProposal
    begins: StreamRequest | None = None
    final: bool = False
    goes_on: bool = False
    retry: bool = False


@dataclass(frozen=True, slots=True)
class _Done:
    """What a command has done, besides what the register shows."""

    answer: StreamAnswer
    candidate: int | None = None
    earlier: bool = False
    interrupted: Signals | None = None
    card: SummaryCard | None = None


def propose(request: ProposeRequest, workspace: Workspace, observer: Observer) -> StreamResult:
    """Begin a stream, judge a candidate, show the stream, or test its champion.

    Raises:
        RlexpError: The stream does not exist, its register was changed, another command holds it, or
            the candidate is refused; nothing was trained then.
    """
    _check(request)
    paths = workspace.layout.experiment(request.study)
    if request.begins is not None:
        if not paths.definition.exists():
            workspace.check_former_name(request.study)
        command = shlex.join(request.proposal.command)
        begin_stream(paths, request.begins, workspace, command)
        return _result(paths, _Done(StreamAnswer.BEGUN), workspace)
    _check_stream(paths, request.study, workspace)
    if request.proposal.is_empty and not request.final and not request.goes_on:
        return _result(paths, _shown(paths), workspace)
    with _holding(paths), open_checkouts(workspace) as checkouts:
        stream = _opened(paths, request, checkouts, workspace, observer)
        done = _final(stream) if request.final else _candidate(stream, request, workspace)
    if done.answer is StreamAnswer.TESTED:
        card, _ = card_and_sequential(paths.name, Phase.TEST, workspace)
        done = replace(done, card=card)
    return _result(paths, done, workspace)


def _check(request: ProposeRequest) -> None:
    """Refuse options that contradict one another.

    Raises:
        ConfigError: What to leave out.
    """
    proposal = request.proposal
    check_one_way(proposal)
    candidate = next((word for word in proposal.words if not _of_executor(word)), None)
    given = {
        "--final": request.final,
        "--continue": request.goes_on,
        "--diff": proposal.diff,
        "--worktree": proposal.worktree,
        str(candidate): candidate,
    }
    options = [name for name, value in given.items() if value]
    if (request.final or request.goes_on) and len(options) > 1:
        raise ConfigError(
            f"{options[0]} does not go with {options[1]}: give one command after the other",
            key=options[0],
        )


def _of_executor(word: str) -> bool:
    return split_override(word)[0].partition(".")[0] == "executor"


def _check_stream(paths: ExperimentPaths, study: str, workspace: Workspace) -> None:
    """Refuse a name that belongs to no stream.

    Raises:
        RecordError: The message has the command that begins one.
    """
    if is_stream(paths):
        return
    if not paths.definition.exists():
        workspace.check_former_name(study)
    command = f"rlexp propose {shlex.quote(study)} --begin algorithm=ppo environment=cartpole"
    others = [e.name for e in workspace.layout.experiments() if is_stream(e)]
    there = f"; streams here: {', '.join(others[:5])}" if others else ""
    what = "is no stream" if paths.definition.exists() else "does not exist"
    raise RecordError(
        f"{study} {what}{there}; to begin one, give the words of its first champion: {command}",
        code="unknown_experiment",
        key=study,
        allowed=others,
        command=command,
    )


def _holding(paths: ExperimentPaths) -> "AbstractContextManager[Lease]":
    """The lock of the stream: two candidates are never judged at the same time."""
    return hold(paths.lock, f"stream {paths.name}", now=time.time())


def _intact(paths: ExperimentPaths) -> tuple[StreamRegister, StreamBeginning]:
    """The register of a stream, which must fit its definition.

    Raises:
        RecordError: One of them was changed.
    """
    register = intact_stream(paths)
    beginning = register.beginning
    experiment = read_experiment(paths)
    if beginning is None or experiment.fingerprint != beginning.experiment:
        raise RecordError(
            f"{paths.definition} is not what the register of {paths.name} has frozen: restore it; "
            f"for all findings: rlexp verify {paths.name}",
            code="changed_register",
            command=f"rlexp verify {paths.name}",
        )
    return register, beginning


def _opened(
    paths: ExperimentPaths,
    request: ProposeRequest,
    checkouts: Checkouts,
    workspace: Workspace,
    observer: Observer,
) -> OpenStream:
    """The stream, ready to train and to score; what a kill has left undone is done."""
    register, beginning = _intact(paths)
    if register.closed is not None and not request.final:
        command = f"rlexp propose {shlex.quote(paths.name)} --final"
        raise RecordError(
            f"{paths.name} is closed: its champion has been chosen for the test seeds, so that a further "
            f"candidate could depend on them; to see the test: {command}",
            code="closed_stream",
            command=command,
        )
    refuse_changed_workspace(beginning, checkouts.of(beginning.commit), paths.name)
    _restore_trials(paths, register)
    check_permission(paths, register, workspace, request.proposal.command)
    words = [word for word in request.proposal.words if _of_executor(word)]
    training = StreamTraining(
        paths=paths,
        checkouts=checkouts,
        workspace=workspace,
        observer=observer,
        executor=executor_of(words, workspace),
        operational=beginning.operational,
        command=request.proposal.command,
        retry=request.retry,
    )
    return OpenStream(paths, register, training, bool(beginning.operational.get(LEAN, True)))


def _restore_trials(paths: ExperimentPaths, register: StreamRegister) -> None:
    """Write the trials of candidates whose command was killed after the line of the register."""
    written = len(read_trials(paths))
    for candidate in register.candidates[written - 1 :]:
        append_trial(paths, _trial(candidate))


def _trial(candidate: OpenedCandidate) -> StoredTrial:
    configuration = read_configuration(candidate.configuration, Configuration.schema)
    return StoredTrial(
        number=candidate.number,
        parameters=candidate.parameters,
        steps=configuration.budget.steps,
        configuration=configuration,
    )


def _candidate(stream: OpenStream, request: ProposeRequest, workspace: Workspace) -> _Done:
    """Judge a candidate, or show the decision that was made before."""
    is_open = stream.register.open
    if request.goes_on:
        if is_open is None:
            raise ConfigError(
                f"{stream.paths.name} has no open candidate: propose one", key="--continue"
            )
        return _judged(stream, is_open.number)
    experiment = read_experiment(stream.paths)
    checked = read_candidate(
        request.proposal,
        *(stream.paths, experiment, stream.register, stream.beginning),
        stream.training.checkouts,
        workspace,
    )
    number = earlier_number(stream.paths, checked.configuration)
    if number is not None and (number == DEFAULT or number in stream.register.decisions):
        return _earlier(stream, number)
    if is_open is not None and is_open.number != number:
        command = f"rlexp propose {shlex.quote(stream.paths.name)} --continue"
        raise RecordError(
            f"candidate {is_open.number} of {stream.paths.name} is not decided yet: finish it "
            f"first: {command}",
            code="protocol",
            command=command,
        )
    if is_open is None:
        _open(stream, request, checked, experiment, workspace)
    return _judged(stream, len(stream.register.candidates))


def _earlier(stream: OpenStream, number: int) -> _Done:
    """The decision about a candidate that has been judged before, at no further cost."""
    if number == DEFAULT:
        return _Done(StreamAnswer.SHOWN, earlier=True)
    decision = stream.register.decisions[number]
    return _Done(StreamAnswer(str(decision.state)), candidate=number, earlier=True)


def _open(
    stream: OpenStream,
    request: ProposeRequest,
    checked: CheckedCandidate,
    experiment: Experiment,
    workspace: Workspace,
) -> None:
    """Give a candidate its share of alpha; the line of the register comes before everything else."""
    register, number = stream.register, len(stream.register.candidates) + 1
    level = _next_level(stream, number)
    trusted = stream.training.checkouts.of(stream.beginning.commit)
    check_candidate(checked, experiment, stream.beginning.code, trusted, workspace)
    labelled = replace(checked.configuration, label=f"trial {number}")
    candidate = OpenedCandidate(
        time=time.time(),
        number=number,
        fingerprint=labelled.fingerprint,
        configuration=labelled.plain(),
        parameters=checked.parameters,
        champion=register.champion,
        source=request.proposal.source,
        words=tuple(w for w in request.proposal.words if not _of_executor(w)),
        commit=checked.code.commit,
        name=checked.code.name,
        level=level,
    )
    stream.enter(candidate)
    append_trial(stream.paths, _trial(candidate))


def _next_level(stream: OpenStream, number: int) -> float:
    """The level of the next candidate.

    Raises:
        RecordError: All of alpha is spent, or the seeds are too few to keep a candidate of this
            level. Such a candidate would only spend alpha.
    """
    register, design = stream.register, design_of(stream.beginning)
    command = f"rlexp propose {shlex.quote(stream.paths.name)} --final"
    if design.horizon is not None and number > design.horizon:
        raise RecordError(
            f"{stream.paths.name} was begun for {design.horizon} candidates, and all of alpha is "
            f"spent: test the champion: {command}",
            code="protocol",
            command=command,
        )
    level = candidate_level(design, number, len(register.kept))
    if needed_seeds(register) is None:
        raise RecordError(
            f"candidate {number} of {stream.paths.name} could never be kept: its level {level:.3g} "
            f"takes {least_seeds(level)} won seeds, and the stream has {design.seeds}; test the "
            f"champion, and begin another stream with more seeds.tuning: {command}",
            code="protocol",
            command=command,
        )
    return level


def _judged(stream: OpenStream, number: int) -> _Done:
    interrupted = stream.judge_open()
    decision = stream.register.decisions.get(number)
    if decision is None:
        return _Done(StreamAnswer.INCOMPLETE, candidate=number, interrupted=interrupted)
    return _Done(StreamAnswer(str(decision.state)), candidate=number)


def _final(stream: OpenStream) -> _Done:
    """Close the stream and test its champion."""
    if (candidate := stream.register.open) is not None:
        command = f"rlexp propose {shlex.quote(stream.paths.name)} --continue"
        raise RecordError(
            f"candidate {candidate.number} of {stream.paths.name} is not decided yet: finish it "
            f"first: {command}",
            code="protocol",
            command=command,
        )
    interrupted = stream.test()
    missing = missing_tests(stream.paths, stream.register)
    answer = StreamAnswer.INCOMPLETE if missing or interrupted else StreamAnswer.TESTED
    return _Done(answer, interrupted=interrupted)


def _shown(paths: ExperimentPaths) -> _Done:
    register, _ = _intact(paths)
    return _Done(StreamAnswer.SHOWN, candidate=len(register.candidates) or None)


def _result(paths: ExperimentPaths, done: _Done, workspace: Workspace) -> StreamResult:
    """The stream as it is now, with what the command has done."""
    register, beginning = _intact(paths)
    experiment, design = read_experiment(paths), design_of(beginning)
    first = experiment.default
    count, kept = len(register.candidates), len(register.kept)
    goes_on = register.closed is None and not is_full(register)
    spent = alpha_spent(design, count)
    codes = {t.number: t.configuration.code for t in read_trials(paths) if t.configuration}
    winner = register.champion or None
    return StreamResult(
        study=paths.name,
        answer=done.answer,
        candidate=done.candidate,
        earlier=done.earlier,
        champion=register.champion,
        champion_name=configuration_name(register.champion, winner),
        task=first.task,
        label=_label(first),
        score=first.budget.score,
        quantity=first.budget.quantity,
        lower_is_better=first.lower_is_better,
        steps=first.budget.steps,
        seeds=design.seeds,
        horizon=design.horizon,
        margin=design.margin,
        alpha=design.alpha,
        alpha_spent=spent,
        alpha_left=max(design.alpha - spent, 0.0),
        next_level=candidate_level(design, count + 1, kept) if goes_on else None,
        fewest_seeds=needed_seeds(register) if goes_on else None,
        commit=beginning.commit,
        code=beginning.code,
        protected=tuple(beginning.protected),
        free=beginning.free,
        candidates=tuple(
            candidate_row(c, register.decisions.get(c.number), codes.get(c.number))
            for c in register.candidates
        ),
        tests_missing=None if register.closed is None else missing_tests(paths, register),
        head=register.head,
        interrupted=done.interrupted.name if done.interrupted else None,
        card=done.card,
        next=tuple(_next(paths, register, workspace)),
    )


def _label(configuration: Configuration) -> str:
    from rlexp.protocol.identity import short_name

    return short_name(configuration.algorithm)


def _next(
    paths: ExperimentPaths, register: StreamRegister, workspace: Workspace
) -> Iterator[NextCommand]:
    permission = permission_of_stream(paths, register, workspace)
    yield from stream_commands(paths, register, permission)
    if register.closed is not None:
        report = ["rlexp", "report", paths.name, *permission]
        yield NextCommand(why="write the report", command=shlex.join(report))
