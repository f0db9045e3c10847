"""The evidence of an ablation: its changes, and the test that was declared before its runs."""

from collections.abc import Mapping
from dataclasses import dataclass

from rlexp.records.ablation import Ablation
from rlexp.stats.sequential.design import Design


@dataclass(frozen=True, slots=True, kw_only=True)
class AblationEvidence:
    """An ablation with its declared test.

    Attributes:
        experiment: Name of the experiment with its runs.
        ablation: The changes and their contrasts.
        design: The sequential test of all contrasts.
        anchors: The scores that normalise to 0 and 1 by task; (0, -1) where lower scores are better.
    """

    experiment: str
    ablation: Ablation
    design: Design
    anchors: Mapping[str, tuple[float, float]]
