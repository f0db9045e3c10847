"""`rlexp cancel`: stops an experiment or one of its runs."""

import shlex
from typing import TYPE_CHECKING

from rlexp.cli.options import Json, TargetName, console_for, current_workspace, show_result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlexp.app.commands.train.cancel import Cancellation


def cancel(target: TargetName, as_json: Json = False) -> None:
    """Stop an experiment or a run.

    A stopped run is recorded as interrupted. Repeating the command, or `rlexp resume`, continues it.
    """
    from rlexp.app.commands.train.cancel import cancel as use_case

    show_result(
        use_case(target, current_workspace()), console_for(as_json=as_json), cancellation_lines
    )


def cancellation_lines(cancellation: "Cancellation") -> "Iterator[str]":
    """The effect of the cancellation and how to continue, as lines."""
    if cancellation.run is None:
        yield _of_experiment(cancellation)
    else:
        yield _of_run(cancellation, cancellation.run)


def _of_run(cancellation: "Cancellation", run: str) -> str:
    from rlexp.app.commands.train.cancel import CancelOutcome

    experiment = shlex.quote(cancellation.experiment)
    match cancellation.outcome:
        case CancelOutcome.ENDING:
            return (
                f"asked run {run} to stop: it stops at its next step and is recorded as "
                f"interrupted; to continue it: rlexp resume {experiment}"
            )
        case CancelOutcome.WITHDRAWN:
            return (
                f"removed run {run} from the queue; to queue it again: rlexp resume {experiment}"
            )
        case CancelOutcome.QUEUED:
            return (
                f"run {run} waits for a worker (state: {cancellation.state}), and an active command "
                "would queue it again; cancel it once it runs, or cancel the whole experiment: "
                f"rlexp cancel {experiment}"
            )
        case _:
            return f"nothing to cancel: run {run} is not running (state: {cancellation.state})"


def _of_experiment(cancellation: "Cancellation") -> str:
    from rlexp.app.commands.train.cancel import CancelOutcome
    from rlexp.text import format_count

    name, experiment = cancellation.experiment, shlex.quote(cancellation.experiment)
    match cancellation.outcome:
        case CancelOutcome.ENDING:
            return (
                f"asked process {cancellation.process}, which runs experiment {name}, to stop: its "
                f"runs are recorded as interrupted; to continue them: rlexp resume {experiment}"
            )
        case CancelOutcome.WITHDRAWN:
            return (
                f"removed {format_count(cancellation.withdrawn, 'run')} of experiment {name} from the "
                "queue: running ones are recorded as interrupted; to continue: "
                f"rlexp resume {experiment}"
            )
        case CancelOutcome.ELSEWHERE:
            return f"experiment {name} is run by {cancellation.holder}; cancel it on that machine"
        case CancelOutcome.UNIDENTIFIED:
            return (
                f"experiment {name} is in use by a process that could not be identified; "
                f"try again: rlexp cancel {experiment}"
            )
        case CancelOutcome.ENDED:
            return (
                f"the command that ran experiment {name} has just ended; to see its runs: "
                f"rlexp show {experiment}"
            )
        case _:
            return f"nothing to cancel: no command runs experiment {name}"
