"""What a sweep decides, written down before it is acted on, and how long it thought."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from rlexp.app.sweeps.request import Configurer
from rlexp.engine.progress import Proposal
from rlexp.protocol.experiment import Configuration
from rlexp.records.selection import Selection
from rlexp.records.trial import Trial
from rlexp.store.layout import ExperimentPaths
from rlexp.store.sweeps import StoredTrial, append_trial, write_selection
from rlexp.tuners import Suggester, Suggestion


@dataclass(slots=True)
class Thinking:
    """A tuner whose time is taken."""

    suggester: Suggester
    last: float = 0.0
    total: float = 0.0
    longest: float = 0.0
    suggestions: int = 0

    def needs(self, number: int) -> int:
        """What the tuner needs."""
        return self.suggester.needs(number)

    def suggest(self, trials: Sequence[Trial], number: int) -> Suggestion | None:
        """What the tuner suggests."""
        begun = time.monotonic()
        suggestion = self.suggester.suggest(trials, number)
        self.last = time.monotonic() - begun
        self.total += self.last
        self.longest = max(self.longest, self.last)
        self.suggestions += 1
        return suggestion


@dataclass(slots=True)
class FolderLedger:
    """Writes trials and the choice into the sweep's folder."""

    paths: ExperimentPaths
    configurer: Configurer
    thinking: list[Thinking] = field(default_factory=list)
    disk_error: OSError | None = None

    def around(self, suggester: Suggester) -> Suggester:
        """Take the time of a tuner."""
        self.thinking.append(Thinking(suggester))
        return self.thinking[-1]

    def configure(self, number: int, suggestion: Suggestion) -> tuple[Configuration | None, str]:
        """The configuration of a trial; nothing, and why, where it cannot be run."""
        return self.configurer.configure(number, suggestion.parameters, suggestion.steps)

    def propose(self, proposal: Proposal, configuration: Configuration | None) -> None:
        """Write a trial down."""
        trial = StoredTrial(
            number=proposal.number,
            parameters=proposal.parameters,
            steps=proposal.steps,
            configuration=configuration,
            refused=proposal.refused,
            parent=proposal.parent,
            seconds=self.thinking[-1].last if self.thinking and proposal.number else 0.0,
        )
        append_trial(self.paths, trial)

    def choose(self, selection: Selection) -> None:
        """Freeze the choice."""
        write_selection(self.paths, selection)
