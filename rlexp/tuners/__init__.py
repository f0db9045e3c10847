"""Tuners: suggest the next configuration from finished tuning trials only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rlexp.protocol.earlier_sweeps import EarlierTrial
from rlexp.protocol.shared_experience import SharedExperience
from rlexp.protocol.space import Space
from rlexp.protocol.value_schedule import EarlierValues
from rlexp.records.trial import Trial, TrialOrigin


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A configuration to try: values of the parameters and environment steps.

    `steps` is None for the full budget. `parent` is the number of the trial whose runs are continued
    with more steps, if any. They keep its configuration, or had the values `earlier` before. `origin`
    says where the configuration comes from, if not from the tuner. The transitions of the trials `shared`
    enter the replay buffer where the last of the earlier parts ends; the search names their runs in
    `experience`.
    """

    parameters: Mapping[str, Any]
    steps: int | None = None
    parent: int | None = None
    origin: TrialOrigin | None = None
    earlier: EarlierValues = ()
    shared: tuple[int, ...] = ()
    experience: SharedExperience | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A search problem for a tuner.

    Attributes:
        space: The search space.
        objectives: Number of objectives of each trial; all are maximised.
        steps: Environment steps of a run at the full budget.
        seed: The seed of all random draws of the tuner.
        earlier: Trials of earlier sweeps over the same parameters.
    """

    space: Space
    objectives: int
    steps: int
    seed: int
    earlier: tuple[EarlierTrial, ...] = ()


class Suggester(Protocol):
    """A tuner that was opened on one problem.

    Suggestions are a function of the arguments only. State between calls is a cache: a fresh
    suggester returns the same suggestions.
    """

    def needs(self, number: int) -> int:
        """The number of first trials that must have ended before trial `number` is suggested."""
        ...

    def suggest(self, trials: Sequence[Trial], number: int) -> Suggestion | None:
        """Suggest trial `number`, from 1; None if the space is exhausted.

        Args:
            trials: Ended trials in order of their numbers, at least the first `needs(number)`.
                Failed trials are missing if the sweep excludes them.
            number: The number of the trial. Trial 0 is the default configuration and is never
                suggested.
        """
        ...


class Tuner(Protocol):
    """A search method: the fields are its settings, `open` starts a search.

    The class variable `identity` (`rlexp.protocol.identity.Identity`) names the tuner in records.
    A class without `identity` is named by its module path. A class variable `lengthens` that is true
    says that trials may repeat a configuration with more steps (`Suggestion.parent`).
    """

    def open(self, problem: Problem) -> Suggester:
        """A suggester for a problem.

        Raises:
            ConfigError: The method cannot solve the problem.
        """
        ...
