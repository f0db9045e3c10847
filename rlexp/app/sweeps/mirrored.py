"""A sweep as its Optuna study shows it: trials, and what was decided after the search.

Optuna calls the best complete trial the best one. So a trial is complete in the study only if it
could win, with its value over all tuning seeds. A trial that was screened and not promoted is
pruned in the study, and its screening value is an attribute. While it may still be promoted, it is
running, because Optuna changes no trial that has ended. Selection and test come after trials have
ended, so they are attributes of the study.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from rlexp.engine.failure_streak import trial_reason
from rlexp.engine.sweep_source import SweepSource, SweepStage
from rlexp.engine.trial_state import TrialProgress
from rlexp.engine.winner_choice import WinnerCandidate
from rlexp.exchange.optuna_trials import MirroredSweep, MirroredTrial, OptunaTrialState
from rlexp.protocol.seeds import Phase
from rlexp.protocol.sweep import Sweep
from rlexp.records.run import RunRecord
from rlexp.records.selection import DEFAULT
from rlexp.records.trial import TrialState
from rlexp.text import decimals_for_span, format_number

ENDED: Mapping[TrialState, Literal["pruned", "failed"]] = {
    TrialState.PRUNED: "pruned",
    TrialState.FAILED: "failed",
}
NO_RESULT = (
    "**The best trial that Optuna names is the best one by tuning. It is not the result of the "
    "sweep**: a tuning score overestimates."
)
UNDECIDED = (SweepStage.SEARCH, SweepStage.PROMOTION)
"""Stages in which a screened trial may still be promoted."""


def mirrored_sweep(sweeping: SweepSource, name: str) -> MirroredSweep:
    """Every trial so far in the order of their numbers, and what was decided after the search.

    Args:
        sweeping: The sweep.
        name: The name of its experiment.
    """
    candidates = {candidate.number: candidate for candidate in sweeping.ranked()}
    decided = sweeping.stage not in UNDECIDED
    return MirroredSweep(
        trials=tuple(
            _trial(entry, sweeping, candidates.get(_owner(entry)), decided=decided)
            for entry in sweeping.search.entries
        ),
        attributes=dict(_decisions(sweeping)),
        notes=dict(_notes(sweeping, name)),
    )


def metric_names(sweep: Sweep) -> tuple[str, ...]:
    """The names of the values of a trial in the study, which are no test scores."""
    if sweep.tasks:
        kind = "rank" if sweep.plan.normalisation == "ranks" else "normalised score"
        return (f"{kind}, all tasks and tuning seeds",)
    return tuple(f"{name}, all tuning seeds" for name in sweep.plan.objectives)


def _owner(entry: TrialProgress) -> int:
    """The number of the trial whose runs these are: its own, or that of its twin."""
    return (entry.twin or entry).proposal.number


def _trial(
    entry: TrialProgress,
    sweeping: SweepSource,
    candidate: WinnerCandidate | None,
    *,
    decided: bool,
) -> MirroredTrial:
    state = _state(entry, sweeping, candidate, decided=decided)
    # Before the end of the trial, only the runs that its outcome was decided by.
    every = state == "complete" or _failed_after_screening(entry)
    records = _all_runs(entry) if every else entry.judged_runs()
    return MirroredTrial(
        number=entry.proposal.number,
        parameters=entry.proposal.parameters,
        state=state,
        values=candidate.values if candidate is not None and state == "complete" else (),
        intermediate=_intermediate(entry, sweeping) if entry.trial is not None else {},
        attributes=dict(_attributes(entry, sweeping, records, state)),
        started=min((r.started for r in records if r.started is not None), default=None),
        ended=max((r.ended for r in records if r.ended is not None), default=None),
    )


def _intermediate(entry: TrialProgress, sweeping: SweepSource) -> dict[int, float]:
    """The mean evaluations of a trial in their units, by environment steps."""
    sign = sweeping.search.question.objectives.pruning_sign
    return {step: sign * value for step, value in entry.intermediate.items()}


def _state(
    entry: TrialProgress,
    sweeping: SweepSource,
    candidate: WinnerCandidate | None,
    *,
    decided: bool,
) -> OptunaTrialState:
    """The state in the study; `complete` only for a trial that can win."""
    if entry.trial is None:
        return "running"
    if entry.trial.state in ENDED:
        return ENDED[entry.trial.state]
    if candidate is not None:
        return "complete"
    if _failed_after_screening(entry):
        return "failed"
    # A trial with fewer steps than the full budget is never promoted.
    full = entry.proposal.steps == sweeping.search.question.steps
    return "running" if full and not decided else "pruned"


def _failed_after_screening(entry: TrialProgress) -> bool:
    """Whether a trial was screened, and failed when it was promoted to further seeds."""
    screened = entry.trial is not None and entry.trial.state is TrialState.COMPLETE
    return screened and any(record.score is None for record in entry.records.values())


def _all_runs(entry: TrialProgress) -> list[RunRecord]:
    return [entry.records[position] for position in sorted(entry.records)]


def _attributes(
    entry: TrialProgress,
    sweeping: SweepSource,
    records: Sequence[RunRecord],
    state: OptunaTrialState,
) -> Iterator[tuple[str, Any]]:
    yield "steps", entry.proposal.steps
    yield "seeds", [r.spec.seed for r in records]
    yield "scores", [r.score for r in records]
    if tasks := sweeping.search.question.objectives.tasks:
        positions = {record.spec.id: position for position, record in entry.records.items()}
        yield "tasks", [tasks[positions[r.spec.id] % len(tasks)].task for r in records]
    yield "runs", [r.spec.name for r in records]
    question, trial = sweeping.search.question, entry.trial
    if trial is not None and trial.state is TrialState.COMPLETE:
        screened = question.screening < question.runs
        if screened or state == "pruned":
            # The values of a trial are stored so that greater is better.
            yield "screening", _single_or_list(question.objectives.oriented(trial.values))
            yield "promotion", _promotion(state)
    if trial is not None and (reason := _reason(entry, sweeping, state)):
        yield "reason", reason
    if entry.proposal.parent is not None:
        yield "continues", entry.proposal.parent


def _promotion(state: OptunaTrialState) -> str:
    """Whether a screened trial was promoted to all tuning seeds, in words."""
    return {
        "running": "undecided",
        "complete": "promoted",
        "failed": "promoted",
        "pruned": "not promoted",
    }[state]


def _reason(entry: TrialProgress, sweeping: SweepSource, state: OptunaTrialState) -> str | None:
    """Why a trial is pruned or failed in the study."""
    if (reason := trial_reason(entry)) is not None:
        return reason
    question = sweeping.search.question
    if _failed_after_screening(entry):
        return "a run failed after the trial was promoted"
    if state != "pruned":
        return None
    if entry.proposal.steps < question.steps:
        return f"its {entry.proposal.steps:,} steps are fewer than the {question.steps:,} of a full run"
    if question.objectives.tasks:
        return f"not promoted: screened by {question.screening} of {question.runs} runs"
    return f"not promoted: screened on {question.screening} of {question.seeds} tuning seeds"


def _decisions(sweeping: SweepSource) -> Iterator[tuple[str, Any]]:
    """The stage, and after the selection the winner, the default, the rule and the finalists.

    The dashboard shows five attributes at first, of which two are those of rlexp itself.
    """
    yield "stage", str(sweeping.stage)
    selection = sweeping.selection
    if selection is None:
        return
    yield "winner", _scored(selection.winner, tuple(Phase), sweeping)
    if selection.winner != DEFAULT:
        yield "default", _scored(DEFAULT, tuple(Phase), sweeping)
    yield "selection_rule", selection.rule
    finalists = [finalist.number for finalist in selection.finalists]
    yield "finalists", [_scored(n, (Phase.TUNING, Phase.SELECTION), sweeping) for n in finalists]


def _notes(sweeping: SweepSource, name: str) -> Iterator[tuple[int | None, str]]:
    """The notes of the finalists, by number, and the note of the study, by None."""
    selection = sweeping.selection
    if selection is None:
        yield None, f"{NO_RESULT} No winner is chosen yet: the stage is {sweeping.stage}."
        return
    finalists = [finalist.number for finalist in selection.finalists]
    shown = dict.fromkeys([selection.winner, *finalists, DEFAULT])
    rows = {number: _row(number, sweeping) for number in shown}
    for number in finalists:
        role = "the winner" if number == selection.winner else "a finalist"
        yield number, f"Trial {number} is {role} of the sweep.\n\n{_table([rows[number]])}"
    chosen = (
        f"The winner is trial {selection.winner}. It was chosen by its runs on selection seeds."
    )
    result = f"{chosen} Only its value on test seeds is a result.\n\n{_table(rows.values())}"
    command = shlex.join(["rlexp", "report", name])
    yield None, f"{result}\n\n{NO_RESULT} For a report with intervals: `{command}`."


def _table(rows: Iterable[str]) -> str:
    """A table of Markdown: trials and their values in each phase."""
    head = ["| trial | tuning | selection | test |", "|---|---|---|---|"]
    return "\n".join([*head, *rows])


def _row(number: int, sweeping: SweepSource) -> str:
    """The value of a trial in each phase, with the number of scores."""
    scored = _scored(number, tuple(Phase), sweeping)
    selection = sweeping.selection
    names = [f"{number}"]
    if selection is not None and number == selection.winner:
        names.append("winner")
    if number == DEFAULT:
        names.append("default")
    return f"| {', '.join(names)} | {' | '.join(_cell(scored.get(str(p))) for p in Phase)} |"


def _cell(phase: Mapping[str, Any] | None) -> str:
    """The value of a phase with its n; the number of scores alone where some are missing."""
    if phase is None:
        return "—"
    n, planned = len(phase["scores"]), phase["planned"]
    if phase["value"] is None:
        return f"{n} of {planned} scores"
    values = phase["value"] if isinstance(phase["value"], list) else [phase["value"]]
    return f"{', '.join(map(_number, values))} (n = {n})"


def _number(value: float) -> str:
    """A value with two decimal places, as in the lines of the search; more for a small value."""
    return format_number(value, max(2, decimals_for_span(abs(value))) if value else 0)


def _scored(number: int, phases: Sequence[Phase], sweeping: SweepSource) -> dict[str, Any]:
    """The number of a trial, with the scores and the value of each phase in which it was run."""
    scored: dict[str, Any] = {"trial": number}
    for phase in phases:
        specs = sweeping.runs_of(number, phase)
        records = [sweeping.records[spec.id] for spec in specs if spec.id in sweeping.records]
        scores = [record.score for record in records if record.score is not None]
        if records:
            whole = len(scores) == len(specs)
            scored[str(phase)] = {
                "value": _value(records, sweeping) if whole else None,
                "scores": scores,
                "planned": len(specs),
            }
    return scored


def _value(records: Sequence[RunRecord], sweeping: SweepSource) -> float | list[float] | None:
    """The objective over the runs of a phase, in its units; a list for several objectives.

    None where trials are compared by ranks, which these runs alone do not have.
    """
    if sweeping.search.question.ranks:
        return None
    return _single_or_list(sweeping.search.question.objectives.values(records) or ())


def _single_or_list(values: Sequence[float]) -> float | list[float] | None:
    if not values:
        return None
    return values[0] if len(values) == 1 else list(values)
