"""The base of components that may act in training only or in evaluation only."""

from dataclasses import dataclass
from typing import Literal

from rlexp.environments import Stage

Acting = Literal["both", "training", "evaluation"]
"""`both` makes the component part of the task; else it acts in training or evaluation only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """Base of components with a setting for the stages at which they act."""

    stage: Acting
    """Stages at which the component acts: both, training or evaluation."""

    @property
    def splits(self) -> bool:
        """Whether evaluation uses another distribution than training."""
        return self.stage != "both"

    def acts(self, stage: Stage) -> bool:
        """Whether the component acts at a stage; IN_DISTRIBUTION counts as training."""
        if self.stage == "both":
            return True
        return (stage is Stage.EVALUATION) == (self.stage == "evaluation")
