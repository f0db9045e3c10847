"""Ends a training before its budget does, and says meanwhile that it is alive."""

from collections.abc import Callable

from rlexp.protocol.budget import Budget
from rlexp.records.events import StopRequest
from rlexp.training import Listener


class Stopped(Exception):  # noqa: N818
    """The run ends before its budget does: asked to, out of time, or pruned."""

    def __init__(self, request: StopRequest) -> None:
        super().__init__(request.reason)
        self.request = request


class TimedOut(Exception):  # noqa: N818
    """The run's time is up."""


def heed(
    listener: Listener,
    budget: Budget,
    step: int,
    *,
    obey: Callable[[StopRequest], bool] = lambda _: True,
    earlier: float = 0.0,
) -> None:
    """Say that the run is alive; end it if its time is up, or if it is asked to and may.

    Args:
        listener: Told of the step.
        budget: Holds the time limit.
        step: Environment steps so far.
        obey: Whether to obey a request now.
        earlier: Seconds that the run took before this attempt.

    Raises:
        Stopped: It is asked to end.
        TimedOut: Its time is up.
    """
    listener.beat(step)
    if (request := listener.stopping()) is not None and obey(request):
        raise Stopped(request)
    if budget.timeout is not None and listener.elapsed() + earlier > budget.timeout:
        raise TimedOut
