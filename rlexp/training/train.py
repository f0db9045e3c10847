"""One training, from its parts to the event that ends it."""

import traceback
from collections.abc import Iterable
from pathlib import Path

from rlexp.records.checkpoint import SavedCheckpoint
from rlexp.records.events import Ending, Failure, RunEnded
from rlexp.training import Listener
from rlexp.training.parts import Training
from rlexp.training.stopping import Stopped, TimedOut
from rlexp.training.training_run import Execution


def train(
    training: Training,
    listener: Listener,
    folder: Path,
    checkpoints: Iterable[SavedCheckpoint] = (),
) -> RunEnded:
    """Train one run to its end, whatever that is; every failure is a value, none an exception.

    Args:
        training: The parts.
        listener: Told of every event; the last is returned too.
        folder: Where stable-baselines3's own files go.
        checkpoints: Of earlier attempts, the best first. The training goes on from the first that
            can be put back bit for bit, and begins anew where there is none.
    """
    run = Execution(training, listener, folder, checkpoints)
    ending, failure, reason, weights, rung = Ending.FAILED, None, None, None, None
    try:
        weights = run.execute()
        ending = Ending.COMPLETED
    except Stopped as stopped:
        asked = stopped.request
        ending, reason, rung = asked.ending, asked.reason, asked.rung
        if ending is Ending.INTERRUPTED:
            run.keeper.save_newest()
    except TimedOut:
        failure, reason = Failure.TIMEOUT, f"not done after {training.budget.timeout:g} s"
    except (Exception, SystemExit) as error:  # noqa: BLE001
        traceback.print_exc()
        if (request := listener.stopping()) is not None:
            # What breaks while a run is being ended is no fault of the run.
            ending, reason, rung = request.ending, request.reason, request.rung
        else:
            failure, reason = run.classify(error)
    ended = RunEnded(
        time=listener.now(),
        step=run.step,
        ending=ending,
        seconds=listener.elapsed(),
        failure=failure,
        reason=reason,
        weights=weights,
        rung=rung,
    )
    # Closing comes last: what an environment does then cannot touch the result.
    try:
        listener.emit(ended)
    finally:
        run.close()
    return ended
