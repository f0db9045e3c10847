"""Heartbeats, stop requests and the time limit of a training."""

from collections.abc import Callable

from rlexp.protocol.budget import Budget
from rlexp.records.events import StopRequest
from rlexp.training import Listener


class Stopped(Exception):  # noqa: N818
    """The training ends before its budget is used, because of a stop request."""

    def __init__(self, request: StopRequest) -> None:
        super().__init__(request.reason)
        self.request = request


class TimedOut(Exception):  # noqa: N818
    """The run has used up its time limit."""


def heartbeat_and_check_stop(
    listener: Listener,
    budget: Budget,
    step: int,
    *,
    obey: Callable[[StopRequest], bool] = lambda _: True,
    earlier: float = 0.0,
) -> None:
    """Send a heartbeat, then check for a stop request and for the time limit.

    Args:
        listener: Receives the heartbeat and holds the stop request.
        budget: Holds the time limit.
        step: Environment steps so far.
        obey: Whether the training may end now for this request.
        earlier: Seconds that the run took before this attempt.

    Raises:
        Stopped: There is a stop request, and `obey` accepts it.
        TimedOut: All attempts together exceed the time limit.
    """
    listener.beat(step)
    if (request := listener.stopping()) is not None and obey(request):
        raise Stopped(request)
    if budget.timeout is not None and listener.elapsed() + earlier > budget.timeout:
        raise TimedOut
