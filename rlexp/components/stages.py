"""At which stages a component that changes the task acts."""

from typing import Literal

from rlexp.environments import Stage

Acting = Literal["both", "training", "evaluation"]
"""Both, where it is part of the task; else only while learning, or only where it is scored."""


def acts(when: Acting, stage: Stage) -> bool:
    """Whether a component acts at a stage; what is in distribution is as training has it."""
    if when == "both":
        return True
    return (stage is Stage.EVALUATION) == (when == "evaluation")
