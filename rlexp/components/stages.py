"""At which stages a component that changes the task acts."""

from dataclasses import dataclass
from typing import Literal

from rlexp.environments import Stage

Acting = Literal["both", "training", "evaluation"]
"""Both, where it is part of the task; else only while learning, or only where it is scored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A component that may act at some stages only."""

    stage: Acting
    """Where it acts: both, training or evaluation."""

    @property
    def splits(self) -> bool:
        """Whether evaluation plays another distribution than training."""
        return self.stage != "both"

    def acts(self, stage: Stage) -> bool:
        """Whether it acts at a stage; what is in distribution is as training has it."""
        if self.stage == "both":
            return True
        return (stage is Stage.EVALUATION) == (self.stage == "evaluation")
