"""`rlexp cancel`: ends the command that drives an experiment, or one run, gracefully."""

from typing import TYPE_CHECKING

from rlexp.cli.options import Json, Target, console_for, here, show_result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlexp.app.commands.cancel import Cancellation


def cancel(target: Target, as_json: Json = False) -> None:
    """End the command that drives an experiment, or one run of it, gracefully."""
    from rlexp.app.commands.cancel import cancel as use_case

    show_result(use_case(target, here()), console_for(as_json=as_json), cancellation_lines)


def cancellation_lines(cancellation: "Cancellation") -> "Iterator[str]":
    """What was done, and how to continue."""
    if cancellation.run is None:
        yield _of_experiment(cancellation)
    else:
        yield _of_run(cancellation, cancellation.run)


def _of_run(cancellation: "Cancellation", run: str) -> str:
    from rlexp.app.commands.cancel import Outcome

    match cancellation.outcome:
        case Outcome.ENDING:
            return (
                f"asked run {run} to end: it stops at its next step and is recorded as "
                "interrupted; 'rlexp resume', or a repeat of its command, continues it"
            )
        case Outcome.WITHDRAWN:
            return f"took back the order of run {run}; a repeat of its command orders it again"
        case Outcome.QUEUED:
            return (
                f"run {run} waits for a worker (it is {cancellation.state}): cancel it once it "
                f"runs, or all: rlexp cancel {cancellation.experiment}"
            )
        case _:
            return f"run {run} is not running (it is {cancellation.state}): nothing to cancel"


def _of_experiment(cancellation: "Cancellation") -> str:
    from rlexp.app.commands.cancel import Outcome
    from rlexp.text import counted

    name = cancellation.experiment
    match cancellation.outcome:
        case Outcome.ENDING:
            return (
                f"asked process {cancellation.process}, which drives experiment {name}, to end: "
                "its runs are recorded as interrupted, and a repeat of its command continues"
            )
        case Outcome.WITHDRAWN:
            return (
                f"took back {counted(cancellation.withdrawn, 'order')} of experiment {name}: what "
                "runs is recorded as interrupted, and a repeat of its command continues"
            )
        case Outcome.ELSEWHERE:
            return f"experiment {name} is driven by {cancellation.holder}; cancel it there"
        case Outcome.UNIDENTIFIED:
            return f"experiment {name} is in use by a process that cannot be told; try again"
        case Outcome.ENDED:
            return f"the command that drove experiment {name} has just ended"
        case _:
            return f"no command drives experiment {name}: nothing to cancel"
