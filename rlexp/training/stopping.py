"""Heartbeats, stop requests, the time limit of a training, and the return at which it ends."""

from collections.abc import Callable
from statistics import fmean
from typing import TYPE_CHECKING

from rlexp.protocol.budget import Budget
from rlexp.records.events import StopRequest
from rlexp.training import Listener

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm


class Stopped(Exception):  # noqa: N818
    """The training ends before its budget is used, because of a stop request."""

    def __init__(self, request: StopRequest) -> None:
        super().__init__(request.reason)
        self.request = request


class TimedOut(Exception):  # noqa: N818
    """The run has used up its time limit."""


class ThresholdReached(Exception):  # noqa: N818
    """Training episodes have reached the return at which the budget ends the training."""


class ReturnThreshold:
    """The return of training episodes at which a training ends, if the budget declares one.

    It is judged where a rollout starts, by the mean of the last training episodes, of which the library
    keeps 100. No evaluation is read: the episodes of a score decide nothing.
    """

    def __init__(self, threshold: float | None) -> None:
        self._threshold = threshold
        self._newest: object = None

    def is_reached(self, model: "BaseAlgorithm") -> bool:
        """Whether as many training episodes as the library keeps have this mean return, or more."""
        episodes = model.ep_info_buffer
        if self._threshold is None or not episodes or len(episodes) < (episodes.maxlen or 1):
            return False
        # Off-policy learners start a rollout at each step: without a new episode there is no news.
        if episodes[-1] is self._newest:
            return False
        self._newest = episodes[-1]
        return fmean(float(episode["r"]) for episode in episodes) >= self._threshold


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
