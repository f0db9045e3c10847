"""What a sequential comparison may be expected to cost and to find, before its first run."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.resampling import Resampling
from rlexp.stats.sequential.design import Design, Pair
from rlexp.stats.sequential.looks import first_state, next_look

CELLS = 2_000_000
"""Numbers that a batch of studies may hold at a time."""


@dataclass(frozen=True, slots=True)
class Endings:
    """How simulated studies ended.

    Attributes:
        signs: 1 where the first label of a pair was found better, -1 worse, 0 neither, (S, m).
        interims: At which a pair was decided, or the last one, (S, m).
        runs: Runs of each label, in the design's order, (S, labels).
    """

    signs: NDArray[np.int64]
    interims: NDArray[np.int64]
    runs: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedRuns:
    """What a design costs and finds on average, if scores are as supposed.

    Attributes:
        runs: Mean number of runs of all labels.
        standard_error: Of that mean, by simulation.
        worst_case: Runs when nothing is decided early, which the fixed design always uses.
        decided: For each pair, how often its labels were told apart.
        any_decided: How often those of some pair were.
        simulations: Simulated studies.
        seed: Of the simulation.
    """

    runs: float
    standard_error: float
    worst_case: int
    decided: Mapping[Pair, float]
    any_decided: float
    simulations: int
    seed: int


def decide_many(design: Design, scores: NDArray[np.float64]) -> Endings:
    """Decide a batch of studies, all blocks of which are there, as `decide` does one.

    Args:
        design: Of every study.
        scores: Of shape (S, labels, K, n), labels in the design's order.
    """
    places = [
        [design.labels.index(label) for label in side] for side in zip(*design.pairs, strict=True)
    ]
    state = first_state(design, len(scores))
    interims = np.full(state.undecided.shape, design.interims)
    for interim in range(1, design.interims + 1):
        first, second = (scores[:, place, interim - 1] for place in places)
        state, look = next_look(design, state, first, second)
        interims[look.rejected] = interim
    signs = np.where(state.undecided, 0, np.sign(state.sums[..., 0])).astype(np.int64)
    involved = np.array([[label in pair for pair in design.pairs] for label in design.labels])
    blocks = (interims[:, None] * involved).max(axis=2)
    return Endings(signs, interims, design.group * blocks)


def expected_runs(
    design: Design, effects: Mapping[str, float], simulation: Resampling
) -> ExpectedRuns:
    """Simulate studies whose scores are normal, and see what they cost and find.

    Args:
        design: Of the study.
        effects: The mean score of each label, in standard deviations of one run's score; labels
            that are left out have 0.
        simulation: As many studies as it has repetitions, from its seed.

    Raises:
        ValueError: An effect is of no label of the design.
    """
    if unknown := sorted(set(effects) - set(design.labels)):
        raise ValueError(
            f"{unknown[0]!r} is no label of the design; labels: {', '.join(design.labels)}"
        )
    means = np.array([effects.get(label, 0.0) for label in design.labels])
    endings = [decide_many(design, scores) for scores in _studies(design, means, simulation)]
    runs = np.concatenate([ending.runs for ending in endings]).sum(axis=1)
    decided = np.concatenate([ending.signs for ending in endings]) != 0
    return ExpectedRuns(
        runs=float(runs.mean()),
        standard_error=float(runs.std() / sqrt(len(runs))),
        worst_case=design.worst_case_runs,
        decided=dict(zip(design.pairs, decided.mean(axis=0).tolist(), strict=True)),
        any_decided=float(decided.any(axis=1).mean()),
        simulations=len(runs),
        seed=simulation.seed,
    )


def _studies(
    design: Design, means: NDArray[np.float64], simulation: Resampling
) -> Iterator[NDArray[np.float64]]:
    """Batches of scores, of shape (S, labels, K, n)."""
    levels = len(design.pairs) if design.family == "holm" else 1
    cells = len(design.pairs) * levels * design.relabellings.count
    most = max(1, CELLS // cells)
    for start in range(0, simulation.repetitions, most):
        size = min(most, simulation.repetitions - start)
        shape = (size, len(means), design.interims, design.group)
        yield simulation.generator(start).normal(size=shape) + means[:, None, None]
