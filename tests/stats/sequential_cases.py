"""Golden cases of sequential comparisons and designs that the tests share."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.sequential.comparison import Design, Family, every_pair

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "golden_adastop.json").read_text())
FAMILIES: tuple[Family, ...] = ("holm", "bonferroni", "maxt")
WORDS = {"larger": "better", "smaller": "worse", "equal": "equal"}


def design_of(case: dict[str, Any], family: Family = "maxt") -> Design:
    """The design of a golden case, with every relabelling."""
    labels = [str(number) for number in range(len(case["scores"]))]
    return Design(
        group=case["n"],
        interims=case["K"],
        alpha=case["alpha"],
        pairs=every_pair(labels),
        family=family,
        repetitions=70_000,
    )


def blocks_of(case: dict[str, Any]) -> dict[str, NDArray[np.float64]]:
    """The scores of a golden case, of shape (blocks, n) for each label."""
    return {
        str(number): np.reshape(scores, (-1, case["n"]))
        for number, scores in enumerate(case["scores"])
    }


def walker_blocks(label: str) -> list[list[float]]:
    """All batches of five runs of a label in the published walker experiment."""
    batches = GOLDEN["mujoco_published"]["walker"]["batches"]
    return [batch[label] for batch in batches if label in batch]
