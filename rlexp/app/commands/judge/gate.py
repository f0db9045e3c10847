"""`rlexp gate`: tests whether the present code learns worse than a committed baseline."""

import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import ClassVar

from rlexp.app.commands.judge.gate_baseline import check_given_margin
from rlexp.app.commands.judge.gate_training import (
    GateTraining,
    failed_rows,
    failure_text,
    keys_of,
    merged_words,
    read_training,
)
from rlexp.app.commands.train.run import RunOptions, RunOutcome
from rlexp.app.comparison.baseline import (
    Baseline,
    changed_settings,
    check_comparable,
    check_design,
    read_baseline,
    tuning_seeds_word,
)
from rlexp.app.diagnostics.short_training import TIMEOUT, Unfinished, train_shortly
from rlexp.app.execution.software_versions import describe_changes
from rlexp.app.observer import Observer
from rlexp.app.results import Displayed, NextCommand, Schema
from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError
from rlexp.stats.level_warning import sequential_level_warning
from rlexp.stats.sequential.non_inferiority import (
    Judgement,
    NonInferiority,
    NonInferiorityDesign,
    judge,
)
from rlexp.stats.task_scores import TaskScores
from rlexp.store.registers.gates import record_gate
from rlexp.text import format_count

ALL_USED = "all"
"""Beginning of the reason that no seed of the baseline is left."""
ENDED = frozenset({"failed", "completed"})
"""The states of a run that is not tried again."""


class GateDecision(StrEnum):
    """What a gate decided."""

    IDENTICAL = "identical"
    NOT_WORSE = "not worse"
    WORSE = "worse"
    UNDECIDED = "undecided"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRequest:
    """A request for a gate.

    Attributes:
        path: The baseline file.
        words: Changed settings, and words that say how runs are executed.
        margin: The largest loss that does not matter, in units of the metric; None takes that of
            the baseline.
        minutes: The time that the command may take; None is no limit.
        retry: Whether runs with a final failure are executed again.
        outputs: Files that the command writes; they are no code.
        command: The command as the user typed it.
    """

    path: Path
    words: tuple[str, ...] = ()
    margin: float | None = None
    minutes: float | None = None
    retry: bool = False
    outputs: tuple[Path, ...] = ()
    command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedRun:
    """One seed of a gate.

    Attributes:
        seed: The tuning seed.
        baseline: The score of the baseline.
        score: The score of the present code; null without one.
        state: The state of the run (`completed`, `failed`, `planned`).
        run: The name of the run.
        tested: Whether an interim analysis has used the seed.
    """

    seed: int
    baseline: float
    score: float | None
    state: str
    run: str
    tested: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedTraining:
    """The comparison of a short training with that of the baseline.

    Attributes:
        seed: Its tuning seed.
        steps: Its environment steps.
        identical: Whether weights and evaluations are the same, bit by bit.
        explanation: What may have changed the bits; null where they are the same.
    """

    seed: int
    steps: int
    identical: bool
    explanation: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult(Displayed):
    """The decision of a gate, and what it rests on.

    Attributes:
        decision: `identical`, `not worse`, `worse`, `undecided` or `failed`.
        reason: Why it is undecided or failed; null for any other decision.
        baseline: The baseline file.
        sum: The sha256 of its content.
        label: The label of the configuration.
        task: The task.
        score: The rule by which a run is scored.
        quantity: What is scored: `return`, or the name of a measure.
        lower_is_better: Whether the scored quantity is minimised.
        changes: The settings that differ from the baseline, each with both values.
        repeated: The short training; null where the baseline has none, or settings differ.
        margin: The largest loss that does not matter, in units of the metric.
        alpha: The level of the sequential test.
        group: New seeds at each interim analysis.
        analyses: Interim analyses so far.
        most_analyses: Largest number of interim analyses.
        n: Seeds of each side that the interim analyses used.
        baseline_mean: Mean score of the baseline on these seeds; null before the first interim analysis.
        mean: Mean score of the present code on these seeds; null before the first interim analysis.
        difference: `mean` minus `baseline_mean`; null before the first interim analysis.
        p: The p-value of the last interim analysis; null before it.
        allowed: The largest p-value that decides at the last interim analysis; null before it.
        random_seed: The seed of the relabellings that are drawn at random.
        root: The key of all seeds.
        runs: The seeds of the baseline whose runs exist.
        trained: Number of runs that this command started.
        warning: Why the test may not hold its level, or may judge other code; null without a reason.
        experiment: The experiment with the runs; null where none was needed.
        minutes: The time limit of the command, in minutes; null without one.
        interrupted: The signal that ended the command (`SIGINT`); null if none did.
        next: Suggested next commands.
    """

    schema: ClassVar[Schema] = Schema("gate")

    decision: GateDecision
    reason: str | None
    baseline: Path
    sum: str
    label: str
    task: str
    score: str
    quantity: str
    lower_is_better: bool
    changes: tuple[str, ...]
    repeated: RepeatedTraining | None
    margin: float
    alpha: float
    group: int
    analyses: int
    most_analyses: int
    n: int
    baseline_mean: float | None
    mean: float | None
    difference: float | None
    p: float | None
    allowed: float | None
    random_seed: int
    root: int
    runs: tuple[GatedRun, ...]
    trained: int
    warning: str | None
    experiment: str | None
    minutes: float | None
    interrupted: str | None
    next: tuple[NextCommand, ...]


def gate(request: GateRequest, workspace: Workspace, observer: Observer) -> GateResult:
    """Train the present code on the seeds of a baseline, until it is clear whether it is worse.

    Raises:
        RlexpError: The baseline, the words or the options are wrong; nothing was started.
    """
    deadline = _deadline(request.minutes)
    gating = _read_gate(request, deadline, workspace, observer)
    repeated = _repeat(gating, deadline)
    if repeated is not None and repeated.identical:
        state = judge(gating.design, [], [])
        return _result(gating, repeated, state, (), GateDecision.IDENTICAL, None)
    return _until_decided(gating, repeated, deadline)


@dataclass(frozen=True, slots=True)
class _Gating:
    """A gate that can start: its baseline, its test and its trainings."""

    request: GateRequest
    baseline: Baseline
    design: NonInferiorityDesign
    training: GateTraining


def _deadline(minutes: float | None) -> float | None:
    if minutes is None:
        return None
    if not minutes > 0:
        raise ConfigError(
            f"--budget {minutes:g} must be above 0: it is the time of the command in minutes",
            key="--budget",
            code="out_of_range",
        )
    return time.monotonic() + 60 * minutes


def _read_gate(
    request: GateRequest, deadline: float | None, workspace: Workspace, observer: Observer
) -> _Gating:
    path = request.path
    baseline = read_baseline(path)
    design = baseline.design(_margin(request, baseline))
    check_design(design, len(baseline.seeds))
    if named := sorted(key for key in keys_of(request.words) if key.startswith("seeds.")):
        raise ConfigError(
            f"{path} names the seeds: leave out {named[0]}=; for other seeds, write another "
            f"baseline: rlexp gate --write FILE WORDS",
            key=named[0],
        )
    # A measurement of the costs would use up the time that the deadline leaves.
    options = RunOptions(retry=request.retry, deadline=deadline, probe=False)
    words = [*merged_words(baseline.words, request.words), tuning_seeds_word(baseline.seeds)]
    written = (path, *request.outputs)
    training = read_training(words, "gate", written, options, workspace, observer)
    root = training.request.experiment.seeds.root
    check_comparable(baseline, training.configuration, root, path)
    return _Gating(request, baseline, design, training)


def _margin(request: GateRequest, baseline: Baseline) -> float:
    check_given_margin(request.margin)
    given, recorded = request.margin, baseline.margin
    if given is None and recorded is None:
        raise ConfigError(
            f"{request.path} has no margin: add --margin with the largest loss of the mean "
            f"{baseline.quantity} that does not matter",
            key="--margin",
            code="missing_value",
        )
    if given is not None and recorded is not None and given != recorded:
        raise ConfigError(
            f"{request.path} was written with --margin {recorded:g}, which was chosen before the "
            f"change: leave out --margin {given:g}, or write another baseline",
            key="--margin",
        )
    return float(given if given is not None else recorded or 0.0)


def _repeat(gating: _Gating, deadline: float | None) -> RepeatedTraining | None:
    """Repeat the short training of the baseline, where the settings are the same."""
    recorded, training = gating.baseline.short_training, gating.training
    # Settings that act later than the short training would pass it unseen.
    if recorded is None or training.configuration.fingerprint != gating.baseline.fingerprint:
        return None
    # The short training takes its time from that of the command.
    left = TIMEOUT if deadline is None else min(TIMEOUT, max(deadline - time.monotonic(), 1.0))
    short = train_shortly(training.spec(recorded.seed), recorded.steps, training.workspace, left)
    explanation = None
    if isinstance(short, Unfinished):
        explanation = f"it did not end: {short.reason}"
    elif short != recorded:
        explanation = describe_changes(gating.baseline.versions, training.versions)
    return RepeatedTraining(
        seed=recorded.seed,
        steps=recorded.steps,
        identical=short == recorded,
        explanation=explanation,
    )


def _until_decided(
    gating: _Gating, repeated: RepeatedTraining | None, deadline: float | None
) -> GateResult:
    """Train group after group, and test after each, until the gate is decided or out of time."""
    seeds, group = gating.baseline.seeds, gating.design.group
    training, request = gating.training, gating.request
    paths = training.workspace.layout.experiment(training.request.experiment.name)
    first = record_gate(paths, request.command, gating.design.margin)
    trained = 0
    for count in range(group, len(seeds) + 1, group):
        outcome = gating.training.train(seeds[:count])
        trained += outcome.ran
        runs = _runs(gating, outcome)
        state = _judge(gating, runs)
        decision, reason = _decision(gating, state, outcome, deadline)
        if decision is not None:
            break
    return _result(
        gating,
        repeated,
        state,
        runs,
        decision or GateDecision.UNDECIDED,
        reason,
        first_margin=first.margin,
        trained=trained,
        interrupted=outcome.interrupted,
    )


def _runs(gating: _Gating, outcome: RunOutcome) -> tuple[GatedRun, ...]:
    """The seeds in order, whether their runs have ended or not."""
    rows = {row.seed: row for row in outcome.summary.runs}
    return tuple(
        GatedRun(
            seed=seed,
            baseline=score,
            score=rows[seed].score,
            state=rows[seed].state,
            run=rows[seed].run,
            tested=False,
        )
        for seed, score in gating.baseline.scores.items()
        if seed in rows
    )


def _judge(gating: _Gating, runs: Sequence[GatedRun]) -> NonInferiority:
    """The test of the seeds before the first one that has no score."""
    sign = -1.0 if gating.baseline.lower_is_better else 1.0
    scores: list[float] = []
    for run in runs:
        if run.score is None:
            break
        scores.append(sign * run.score)
    return judge(gating.design, scores, [sign * s for s in gating.baseline.scores.values()])


def _decision(
    gating: _Gating, state: NonInferiority, outcome: RunOutcome, deadline: float | None
) -> tuple[GateDecision | None, str | None]:
    """The decision and its reason; no decision where another group of seeds is needed."""
    experiment = outcome.summary.experiment
    # Before the judgement: a run without a score is never passed over.
    if failed := next(failed_rows(outcome), None):
        return GateDecision.FAILED, failure_text(failed, experiment)
    if state.judgement is not Judgement.UNDECIDED:
        return GateDecision(state.judgement.value), None
    if reason := _why_undecided(gating, state, outcome, deadline):
        return GateDecision.UNDECIDED, reason
    if not outcome.complete:
        return GateDecision.FAILED, f"runs of {experiment} are missing"
    return None, None


def _why_undecided(
    gating: _Gating, state: NonInferiority, outcome: RunOutcome, deadline: float | None
) -> str | None:
    """Why no further seed is trained; None where one can be."""
    if outcome.interrupted:
        return f"{outcome.interrupted} ended the command"
    if state.finished:
        return f"{ALL_USED} {format_count(len(gating.baseline.seeds), 'seed')} of the baseline are used"
    if deadline is not None and time.monotonic() >= deadline:
        return f"the {_minutes_text(gating.request.minutes)} of --budget are over"
    return None


def _minutes_text(minutes: float | None) -> str:
    """A time limit as words: `1 minute`, `2.5 minutes`."""
    return f"{minutes:g} minute{'' if minutes == 1 else 's'}"


def _result(
    gating: _Gating,
    repeated: RepeatedTraining | None,
    state: NonInferiority,
    runs: tuple[GatedRun, ...],
    decision: GateDecision,
    reason: str | None,
    *,
    first_margin: float | None = None,
    trained: int = 0,
    interrupted: str | None = None,
) -> GateResult:
    baseline, request, training = gating.baseline, gating.request, gating.training
    tested = runs[: state.seeds]
    sides = [[r.score for r in tested if r.score is not None], [r.baseline for r in tested]]
    mean, baseline_mean = (sum(side) / len(side) if side else None for side in sides)
    difference = None if mean is None or baseline_mean is None else mean - baseline_mean
    experiment = training.request.experiment
    return GateResult(
        decision=decision,
        reason=reason,
        baseline=request.path,
        sum=baseline.sum,
        label=training.configuration.label,
        task=baseline.task,
        score=baseline.rule,
        quantity=baseline.quantity,
        lower_is_better=baseline.lower_is_better,
        changes=changed_settings(baseline, training.configuration),
        repeated=repeated,
        margin=gating.design.margin,
        alpha=baseline.alpha,
        group=baseline.group,
        analyses=state.analyses,
        most_analyses=gating.design.interims,
        n=state.seeds,
        baseline_mean=baseline_mean,
        mean=mean,
        difference=difference,
        p=state.p,
        allowed=state.allowed,
        random_seed=gating.design.sequential.seed,
        root=baseline.root,
        runs=tuple(replace(run, tested=i < state.seeds) for i, run in enumerate(runs)),
        trained=trained,
        warning="; ".join(_warnings(gating, sides, first_margin)) or None,
        experiment=experiment.name if runs else None,
        minutes=request.minutes,
        interrupted=interrupted,
        next=tuple(_next(gating, decision, runs, reason)),
    )


def _warnings(
    gating: _Gating, sides: Sequence[Sequence[float]], first_margin: float | None
) -> Iterator[str]:
    """Why the answer may be weaker than its level says."""
    if warning := _warning(sides, gating.baseline.group):
        yield warning
    if first_margin is not None and first_margin != gating.design.margin:
        yield (
            f"margin {first_margin:g} was used first for these runs: a margin that is chosen after "
            "scores were seen weakens the test"
        )
    if sides[0] and gating.training.code.commit is None:
        yield (
            "there is no git commit, so runs are recognised by configuration and versions only, "
            "and other changes of the code are not noticed"
        )


def _warning(sides: Sequence[Sequence[float]], group: int) -> str | None:
    if not sides[0]:
        return None
    present, baseline = (TaskScores.from_tasks([list(side)]) for side in sides)
    return sequential_level_warning(
        present, baseline, "the present code", "the baseline", group=group
    )


def _next(
    gating: _Gating, decision: GateDecision, runs: Sequence[GatedRun], reason: str | None
) -> list[NextCommand]:
    name = gating.training.request.experiment.name
    again = shlex.join(gating.request.command)
    match decision:
        case GateDecision.FAILED:
            failed = failed_run(runs)
            target = f"{name}/{failed}" if failed else name
            return [NextCommand(why="see why", command=shlex.join(["rlexp", "logs", target]))]
        case GateDecision.WORSE:
            return [NextCommand(why="see every run", command=f"rlexp show {name} --full")]
        case GateDecision.UNDECIDED if reason and not reason.startswith(ALL_USED):
            return [NextCommand(why="continue", command=again)]
        case _:
            return []


def failed_run(runs: Sequence[GatedRun]) -> str | None:
    """The first run that ended without a score; one that is interrupted or planned did not end."""
    return next((r.run for r in runs if r.score is None and r.state in ENDED), None)
