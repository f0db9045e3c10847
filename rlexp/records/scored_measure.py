"""The reason why an evaluation cannot be scored: episodes without the measure of the score."""

from rlexp.protocol.measures import quantity_of, results_among
from rlexp.records.events import Evaluated
from rlexp.text import join_first_names


def lacking_measure(event: Evaluated, score: str) -> str | None:
    """Why an evaluation cannot be scored; None if every episode reports the measure.

    Args:
        event: The evaluation.
        score: The score of the budget.
    """
    lacking = event.lacking(quantity_of(score))
    if not lacking:
        return None
    total = len(event.returns)
    where = "the final evaluation" if event.final else f"the evaluation at step {event.step:,}"
    others = join_first_names(results_among(event.measures or {})) or "no measure"
    return (
        f"budget.score={score} needs the measure {score} of every episode, and {lacking:,} of "
        f"{total:,} episodes of {where} lack it (they report: {others})"
    )
