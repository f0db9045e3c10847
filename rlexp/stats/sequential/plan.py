"""Expected runs and power of a sequential comparison, by simulation before its first run."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.resampling import Resampling
from rlexp.stats.sequential.design import Design, Pair
from rlexp.stats.sequential.looks import first_state, next_look

CELLS = 2_000_000
"""Numbers of a batch of studies in memory at a time."""


@dataclass(frozen=True, slots=True)
class Endings:
    """Results of simulated studies.

    Attributes:
        signs: 1 if the first label of a pair was decided better, -1 worse, 0 neither, (S, m).
        interims: Interim at which a pair was decided, or the last one, (S, m).
        runs: Runs of each label, in the order of the design, (S, labels).
    """

    signs: NDArray[np.int64]
    interims: NDArray[np.int64]
    runs: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedRuns:
    """Expected cost and power of a design under assumed effects.

    Attributes:
        runs: Mean number of runs of all labels.
        standard_error: Simulation standard error of that mean.
        worst_case: Runs if no pair is decided early; the fixed design always uses them.
        decided: For each pair, fraction of studies that distinguish its labels.
        any_decided: Fraction of studies that distinguish the labels of at least one pair.
        simulations: Number of simulated studies.
        seed: Seed of the simulation.
    """

    runs: float
    standard_error: float
    worst_case: int
    decided: Mapping[Pair, float]
    any_decided: float
    simulations: int
    seed: int


def decide_many(design: Design, scores: NDArray[np.float64]) -> Endings:
    """Decide a batch of complete studies, with the same results as `decide` for each.

    Args:
        design: Design of every study.
        scores: Of shape (S, labels, K, n), with labels in the order of the design.
    """
    positions = [
        [design.labels.index(label) for label in side] for side in zip(*design.pairs, strict=True)
    ]
    state = first_state(design, len(scores))
    interims = np.full(state.undecided.shape, design.interims)
    for interim in range(1, design.interims + 1):
        first, second = (scores[:, labels, interim - 1] for labels in positions)
        state, look = next_look(design, state, first, second)
        interims[look.rejected] = interim
    signs = np.where(state.undecided, 0, np.sign(state.sums[..., 0])).astype(np.int64)
    involved = np.array([[label in pair for pair in design.pairs] for label in design.labels])
    blocks = (interims[:, None] * involved).max(axis=2)
    return Endings(signs, interims, design.group * blocks)


def expected_runs(
    design: Design, effects: Mapping[str, float], simulation: Resampling
) -> ExpectedRuns:
    """Expected cost and power of a design, from simulated studies with normal scores.

    Args:
        design: Design of the study.
        effects: Mean score of each label, in standard deviations of a run's score; 0 if omitted.
        simulation: Number of studies (repetitions) and seed.

    Raises:
        ValueError: An effect has a label that is not in the design.
    """
    if unknown := sorted(set(effects) - set(design.labels)):
        raise ValueError(
            f"label {unknown[0]!r} is not in the design; its labels: {', '.join(design.labels)}"
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
