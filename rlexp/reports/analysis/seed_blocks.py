"""Groups of scores in the order of the seeds, as sequential comparisons test them."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rlexp.reports.evidence.runs import LabelTaskRuns


def seed_blocks(
    cells: Sequence[LabelTaskRuns],
    anchors: Mapping[str, tuple[float, float]],
    group: int,
    interims: int,
) -> list[NDArray[np.float64]]:
    """Groups of scores in the order of the seeds, up to the first group that lacks a score.

    Args:
        cells: The runs of a label on every task.
        anchors: The scores that normalise to 0 and 1, by task; other scores stay as they are.
        group: Number of seeds of a group.
        interims: Largest number of groups.

    Returns:
        Arrays of shape (group,).
    """
    by_task = [_by_seed(cell, anchors) for cell in cells]
    blocks: list[NDArray[np.float64]] = []
    for number in range(interims):
        seeds = range(number * group, (number + 1) * group)
        # An incomplete group is not tested: the design fixes how many scores
        # each interim analysis uses.
        if not by_task or not all(seed in scores for scores in by_task for seed in seeds):
            break
        # Seeds are the units of the test: each contributes one score, its mean over the tasks.
        blocks.append(np.asarray([np.mean([s[seed] for s in by_task]) for seed in seeds]))
    return blocks


def _by_seed(cell: LabelTaskRuns, anchors: Mapping[str, tuple[float, float]]) -> dict[int, float]:
    low, high = anchors.get(cell.task, (0.0, 1.0))
    scores = {m.record.spec.seed: m.score for m in cell.members}
    if cell.worst is not None:
        scores |= {m.record.spec.seed: cell.worst for m in cell.scoreless}
    return {seed: (s - low) / (high - low) for seed, s in scores.items() if s is not None}
