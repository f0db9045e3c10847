"""Tuners: from finished tuning trials to the next configuration, and from nothing else."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rlexp.protocol.space import Space
from rlexp.records.trial import Trial


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A configuration to try: values for parameters, and with how many environment steps.

    Without `steps`, at the full budget. `parent` is the trial whose configuration is taken up
    again with more steps, if it is one.
    """

    parameters: Mapping[str, Any]
    steps: int | None = None
    parent: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What a tuner has to solve.

    Attributes:
        space: Where to search.
        objectives: How many numbers each trial has; all are maximised.
        steps: Environment steps of a run at the full budget.
        seed: Of everything that the tuner draws.
    """

    space: Space
    objectives: int
    steps: int
    seed: int


class Suggester(Protocol):
    """A tuner at work on one problem.

    Its suggestions are a function of their arguments alone: what it keeps between calls only
    makes them faster, and a fresh one suggests the same.
    """

    def needs(self, number: int) -> int:
        """How many of the first trials must have ended before trial `number` is suggested."""
        ...

    def suggest(self, trials: Sequence[Trial], number: int) -> Suggestion | None:
        """Suggest trial `number`, from 1; nothing where the space is exhausted.

        Args:
            trials: Ended trials in order of their numbers, `needs(number)` of the first at
                least; with failed ones left out where the sweep excludes them.
            number: Of the trial. Trial 0 is the default configuration, which is not suggested.
        """
        ...


class Tuner(Protocol):
    """A way to search: its fields are its settings, `open` is the behaviour.

    Its class variable `identity` (`rlexp.protocol.identity.Identity`) names it in records. A class
    without one is named by its module path.
    """

    def open(self, problem: Problem) -> Suggester:
        """Begin to work on a problem.

        Raises:
            ConfigError: It cannot be solved this way; says why.
        """
        ...
