"""The scores of runs of a stream, which the trusted code has computed in a separate process.

What the process of such a run says about its own score never counts, because candidates bring the code
of that process. By construction, every reader of records gets the score from here.
"""

from collections.abc import Sequence
from typing import Any

from rlexp.errors import RecordError
from rlexp.records.events import (
    Ending,
    Evaluated,
    Event,
    Examined,
    RunEnded,
    from_plain,
    to_plain,
)
from rlexp.store.files import publish_json, read_json
from rlexp.store.layout import RunPaths

EVALUATION = "evaluation"


def write_scoring(run: RunPaths, evaluation: Evaluated | None) -> None:
    """Publish the final evaluation of a run by the trusted code; None where there is none.

    Raises:
        OSError: The disk is full or gone.
    """
    content: dict[str, Any] = {EVALUATION: None if evaluation is None else to_plain(evaluation)}
    publish_json(run.scoring, content)


def read_scoring(run: RunPaths) -> Evaluated | None:
    """The final evaluation of a run by the trusted code; None where there is none yet.

    Raises:
        RecordError: The file is damaged.
    """
    if not run.scoring.exists():
        return None
    content = read_json(run.scoring).get(EVALUATION)
    if content is None:
        return None
    try:
        event = from_plain(content)
    except (TypeError, RecordError) as error:
        raise RecordError(f"{run.scoring} is damaged: {error}") from error
    if not isinstance(event, Evaluated):
        raise RecordError(f"{run.scoring} is damaged: it holds no evaluation")
    return event


def with_scoring(run: RunPaths, events: Sequence[Event]) -> list[Event]:
    """The events of an attempt, whose final evaluation is replaced by the trusted one."""
    kept = [event for event in events if not _is_claim(event)]
    ended = bool(kept) and isinstance(kept[-1], RunEnded) and kept[-1].ending is Ending.COMPLETED
    scoring = read_scoring(run) if ended else None
    return kept if scoring is None else [*kept[:-1], scoring, kept[-1]]


def _is_claim(event: Event) -> bool:
    """Whether an event says what the final policy reaches."""
    return isinstance(event, Examined) or (isinstance(event, Evaluated) and event.final)
