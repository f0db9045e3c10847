"""How often `rlexp ablate` is wrong, what it finds, and how many runs it needs.

Simulates ablations of several changes with normal and with skewed scores. Of the changes, none, one, or
two that act only together change the score. Prints for each case the share of studies in which any comparison
of equal configurations was decided, the share in which a change that did it was found, the share in
which every interval holds the true difference, and the mean number of runs, as the table of
`docs/guides/ablate.md`: `python benchmarks/ablation.py`.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.sequential.design import Design, Pair
from rlexp.stats.sequential.intervals import repeated_interval
from rlexp.stats.sequential.plan import Endings, decide_many

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]
"""Draws scores of a shape, whose standard deviation is 1."""
Score = Callable[[frozenset[int]], float]
"""The mean score of a configuration with some of the changes, in standard deviations."""

GROUP, INTERIMS, ALPHA = 5, 5, 0.05
REPETITIONS = 1000
EFFECTS = (1.0, 2.0, 3.0)
"""What a change does to the mean score, in standard deviations."""
BATCH = 50
"""Studies that are simulated together."""


@dataclass(frozen=True, slots=True)
class Contrasts:
    """The configurations of an ablation, as sets of changes, and what is compared."""

    configurations: tuple[frozenset[int], ...]
    pairs: tuple[tuple[int, int], ...]

    def design(self, repetitions: int = REPETITIONS) -> Design:
        """The sequential test of the comparisons."""
        pairs: tuple[Pair, ...] = tuple((str(a), str(b)) for a, b in self.pairs)
        return Design(
            group=GROUP,
            interims=INTERIMS,
            pairs=pairs,
            alpha=ALPHA,
            family="holm",
            repetitions=repetitions,
        )


def each(changes: int) -> Contrasts:
    """Every change left out of all, and added alone; the comparison of all with none first."""
    every = frozenset(range(changes))
    none: frozenset[int] = frozenset()
    chosen = [every, none, *(every - {c} for c in every), *(frozenset({c}) for c in every)]
    configurations = tuple(dict.fromkeys(chosen))
    place = configurations.index
    left_out = [(place(every), place(every - {c})) for c in range(changes)]
    added = [(place(frozenset({c})), place(none)) for c in range(changes)]
    pairs = dict.fromkeys([(place(every), place(none)), *left_out, *added])
    return Contrasts(configurations, tuple(pairs))


def path(changes: int) -> Contrasts:
    """The changes added one after another; the comparison of all with none first."""
    steps = tuple(frozenset(range(count)) for count in range(changes, -1, -1))
    pairs = [(0, changes), *pairwise(range(changes + 1))]
    return Contrasts(steps, tuple(dict.fromkeys(pairs)))


def normal(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Standard normal scores."""
    return generator.normal(size=shape)


def skewed(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Scores with a long tail of failures: the negative of an exponential law."""
    return -generator.exponential(size=shape)


def nothing(_: frozenset[int]) -> float:
    """No change does anything."""
    return 0.0


def one(effect: float, change: int = 0) -> Score:
    """One change does it, with or without the others."""
    return lambda changes: effect * (change in changes)


def together(effect: float) -> Score:
    """The first two changes do it, but only together."""
    return lambda changes: effect * ({0, 1} <= changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What ablations of one kind do.

    Attributes:
        wrong: Share of studies in which a comparison of equal means was decided.
        found: Share of studies that found the change that did it, in place; of a null, 0.
        covered: Share of studies in which every interval holds the true difference.
        runs: Mean number of runs.
        most: Number of runs if nothing is decided early.
        studies: Number of simulated studies.
    """

    wrong: float
    found: float
    covered: float | None
    runs: float
    most: int
    studies: int


def simulate(
    contrasts: Contrasts,
    score: Score,
    draw: Draw,
    studies: int,
    seed: int,
    *,
    repetitions: int = REPETITIONS,
    intervals: int = 0,
) -> Operation:
    """Simulate ablations.

    Args:
        contrasts: What is compared.
        score: The mean score of each configuration.
        draw: Draws the noise of the scores.
        studies: Number of studies.
        seed: The seed of the scores.
        repetitions: Relabellings of a test.
        intervals: Number of studies whose intervals are computed, which takes longer.
    """
    design = contrasts.design(repetitions)
    means = np.array([score(changes) for changes in contrasts.configurations])
    # The design orders its labels by their first pair; configurations stay in their order.
    order = [int(label) for label in design.labels]
    true = np.array([means[a] - means[b] for a, b in contrasts.pairs])
    wrong, found, runs = list[Mask](), list[Mask](), list[NDArray[np.int64]]()
    covered: list[bool] = []
    for scores in _batches(len(order), means[order], draw, studies, seed):
        endings = decide_many(design, scores)
        decided = endings.signs != 0
        wrong.append((decided & (true == 0)).any(axis=1))
        found.append(endings.signs[:, 1] > 0)
        runs.append(endings.runs.sum(axis=1))
        for study in range(len(scores)):
            if len(covered) < intervals:
                covered.append(_covers(design, scores[study], endings, study, true))
    return Operation(
        wrong=float(np.concatenate(wrong).mean()),
        found=float(np.concatenate(found).mean()),
        covered=float(np.mean(covered)) if covered else None,
        runs=float(np.concatenate(runs).mean()),
        most=design.worst_case_runs,
        studies=studies,
    )


def _batches(labels: int, means: Array, draw: Draw, studies: int, seed: int) -> Iterator[Array]:
    """Scores of shape (S, labels, K, n)."""
    generator = np.random.default_rng(seed)
    for start in range(0, studies, BATCH):
        size = min(BATCH, studies - start)
        yield draw(generator, (size, labels, INTERIMS, GROUP)) + means[:, None, None]


def _covers(design: Design, scores: Array, endings: Endings, study: int, true: Array) -> bool:
    """Whether the intervals of all comparisons of a study hold the true differences."""
    places = {label: number for number, label in enumerate(design.labels)}
    for number, (first, second) in enumerate(design.pairs):
        looks = endings.interims[study, number]
        sides = (scores[places[label], :looks] for label in (first, second))
        decided = bool(endings.signs[study, number])
        interval = repeated_interval(design, *sides, excludes_zero=decided)
        if interval.low is None or interval.high is None:
            continue
        if not interval.low <= true[number] <= interval.high:
            return False
    return True


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=1000)
    parser.add_argument("--intervals", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    plans = {"3 changes, each": each(3), "10 changes, path": path(10)}
    print("| ablation | scores | what did it | wrong | found | intervals hold | runs of |")
    print("|---|---|---|---|---|---|---|")
    for title, contrasts in plans.items():
        for draw in (normal, skewed):
            for name, score in _cases(title):
                result = simulate(
                    *(contrasts, score, draw, options.studies, options.seed),
                    intervals=options.intervals,
                )
                found = "" if name == "nothing" else f"{100 * result.found:.1f} %"
                print(
                    f"| {title} | {draw.__name__} | {name} | {100 * result.wrong:.1f} % | {found} | "
                    f"{100 * (result.covered or 0):.1f} % | {result.runs:.0f} of {result.most} |",
                    flush=True,
                )


def _cases(title: str) -> Iterator[tuple[str, Score]]:
    yield "nothing", nothing
    for effect in EFFECTS:
        # On a path the first pair after the total is the step of the last change.
        target = 9 if "path" in title else 0
        yield f"one change, {effect:g} σ", one(effect, target)
    if "each" in title:
        yield "two changes together, 2 σ", together(2.0)


if __name__ == "__main__":
    main()
