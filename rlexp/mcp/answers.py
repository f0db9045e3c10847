"""The answer of a tool on one line, from the same sentences as the terminal and the page."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from rlexp.text import format_count, join_first_names, one_line

MOST_NAMED = 5
"""Most names that an answer lists."""


LIMITS = ("Missing", "Looks", "Protocol")
"""Names of facts of a card that limit its answer."""


def answer(result: Any) -> str:
    """The answer of a result on one line."""
    return one_line(ANSWERS[result.schema.name](result))


def _card_text(card: Any, otherwise: str) -> str:
    """The answer of a card, what it rests on, and the facts that limit it."""
    if card is None:
        return otherwise
    facts = [f"{n}: {t}." for n, t in getattr(card, "facts", ()) if n in LIMITS]
    return " ".join([f"{card.text}.", *([card.basis] if card.basis else []), *facts])


def _listing(listing: Any) -> str:
    noun = str(listing.kind).removesuffix("s")
    rows = len(listing.rows)
    if not listing.total:
        return f"there is no {noun} yet: the tool run makes one"
    if not rows:
        return f"no {noun} of {listing.total} matches {' and '.join(listing.where)}"
    names = [getattr(row, noun if noun != "configuration" else "label") for row in listing.rows]
    return f"{format_count(rows, noun)}: {join_first_names(names, MOST_NAMED)}"


def _experiment(details: Any) -> str:
    return _card_text(details.card, f"{details.experiment} has no scores yet")


def _run_record(details: Any) -> str:
    score = "no score" if details.score is None else f"score {details.score:g}"
    reason = f": {details.reason}" if details.reason else ""
    return f"{details.experiment}/{details.run} is {details.state} at step {details.step:,}, {score}{reason}"


def _status(status: Any) -> str:
    if len(status.experiments) == 1:
        (only,) = status.experiments
        states = ", ".join(f"{n} {state}" for state, n in sorted(only.runs.items())) or "no runs"
        return f"{only.experiment} is {only.state}: {states}"
    numbers = Counter(experiment.state for experiment in status.experiments)
    counts = ", ".join(f"{n} {state}" for state, n in sorted(numbers.items()))
    return f"{format_count(len(status.experiments), 'experiment')}: {counts}"


def _plan(plan: Any) -> str:
    refused = format_count(len(plan.refused), "refused configuration")
    return (
        f"{plan.experiment}: {format_count(plan.runs, 'run')} would start, {plan.done} are done"
        f"{f', {refused}' if plan.refused else ''}"
    )


def _outcome(outcome: Any) -> str:
    name = outcome.summary.experiment
    if outcome.interrupted:
        return (
            f"{name}: interrupted by {outcome.interrupted}; the same call continues from the "
            "checkpoints"
        )
    prefix = "" if outcome.ran else "nothing to run, every requested run has ended. "
    return prefix + _card_text(outcome.card, f"{name} has no answer yet")


def _cancellation(cancelled: Any) -> str:
    name = cancelled.run or cancelled.experiment
    return f"{name}: {OUTCOMES[str(cancelled.outcome)]}"


def _comparison(comparison: Any) -> str:
    return _card_text(comparison.card, f"{comparison.title}: there are no scores to compare")


def _report(files: Any) -> str:
    verb = "already written" if files.unchanged else "wrote"
    names = join_first_names([str(path) for path in files.files], MOST_NAMED)
    return f"{_card_text(files.answer, 'no answer yet')} ({verb}: {names})"


def _settings(listing: Any) -> str:
    names = join_first_names([row.write for row in listing.rows], MOST_NAMED)
    return f"{format_count(len(listing.rows), 'setting')} about {listing.word}: {names}"


def _stream(stream: Any) -> str:
    row = stream.judged
    champion = f"the champion is {stream.champion_name}"
    left = f"alpha left: {stream.alpha_left:.3g} of {stream.alpha:.3g}"
    if stream.interrupted:
        return f"{stream.study}: interrupted by {stream.interrupted}; the same call continues"
    if row is None or row.decision is None:
        state = "takes candidates" if row is None else f"candidate {row.number} is not decided yet"
        return f"{stream.study} {state}; {champion}; {left}"
    decided = f"candidate {row.number} was {row.decision} with {row.n} tuning seeds: {row.reason}"
    return f"{stream.study}: {decided}; {champion}; {left}"


OUTCOMES: Mapping[str, str] = {
    "ending": "it was asked to stop; the same call of run continues",
    "withdrawn": "queued runs were withdrawn, and running ones were asked to stop",
    "queued": "it waits for a worker and stays queued, because an active command would queue it again",
    "idle": "nothing was running",
    "elsewhere": "a command on another machine runs it: cancel it there",
    "unidentified": "the process that runs it could not be identified",
    "ended": "it ended before it could be asked to stop",
}
"""What each outcome of a cancellation means."""
ANSWERS: Mapping[str, Callable[[Any], str]] = {
    "listing": _listing,
    "experiment-details": _experiment,
    "run-details": _run_record,
    "status": _status,
    "run-plan": _plan,
    "run-outcome": _outcome,
    "cancellation": _cancellation,
    "stream": _stream,
    "comparison": _comparison,
    "report-files": _report,
    "configuration-search": _settings,
}
"""The function that answers for each kind of document."""
