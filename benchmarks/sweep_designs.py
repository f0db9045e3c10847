"""What designs of sweeps reach on real landscapes: the table that `rlexp plan` reads, and its test.

`python benchmarks/sweep_designs.py [--repeats 2000] [--write]` replays random search in two stages with
many numbers of trials, seeds and finalists on ten landscapes, and prints how well designs that are chosen
on nine landscapes do on the tenth: their true score and optimism beside what was expected of them, and
what the best design of the tenth would have reached. Scores are on the scale of each task, where 0 and 1
are the 5th and 95th percentile of its configurations. `--write` renews
`rlexp/app/sweeps/sweep_designs.json`.
"""

import argparse
import json
from itertools import product

import numpy as np
from landscape_table import Landscape, usable
from numpy.typing import NDArray

from rlexp.app.sweeps.design_table import TABLE, SweepDesign

TRIALS = (8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192)
TUNING = (1, 2, 3, 5)
PROMOTED = (0.04, 0.08, 0.16, 0.32)
SELECTION = (0, 2, 3)
FINALISTS = 3
BUDGETS = (16, 24, 36, 48, 72, 96, 144, 192)
"""Runs of tuning and selection for which designs are chosen in the test."""


def designs() -> list[SweepDesign]:
    """Every design of the table; one tuning seed promotes nothing."""
    every = []
    for trials, tuning, selection in product(TRIALS, TUNING, SELECTION):
        for promoted in PROMOTED if tuning > 1 else PROMOTED[1:2]:
            finalists = FINALISTS if selection else 1
            every.append(SweepDesign(trials, tuning, promoted, selection, finalists))
    return every


def gathered(table: Landscape, repeats: int) -> NDArray[np.float64]:
    """Normalised scores of drawn configurations on shuffled seeds: (repeats, trials, seeds)."""
    generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence([0])))
    rows, seeds = (
        generator.permuted(np.tile(np.arange(count), (repeats, 1)), axis=1)
        for count in table.final.shape
    )
    low, high = table.ends
    scores = (table.final - low) / (high - low)
    return np.asarray(scores[rows[:, : max(TRIALS), None], seeds[:, None, :]])


def outcome(scores: NDArray[np.float64], worst: float, design: SweepDesign) -> tuple[float, float]:
    """Mean true score and optimism of the winners of a design; crashes rank last.

    Args:
        scores: Of shape (repeats, trials, seeds), NaN where a run crashed.
        worst: The true score of a crash.
        design: The design.
    """
    ranked = np.where(np.isnan(scores), -np.inf, scores)[:, : design.trials]
    count = design.tuning + design.selection
    best = np.argsort(-ranked[:, :, 0], axis=1, kind="stable")[:, : design.promotions, None]
    tuned = np.take_along_axis(ranked, best, 1)[:, :, : design.tuning].mean(axis=2)
    order = np.argsort(-tuned, axis=1, kind="stable")[:, : design.finalists]
    final = np.take_along_axis(best[:, :, 0], order, 1)
    chosen = np.zeros((len(scores), 1), dtype=np.intp)
    if design.selection:
        again = np.take_along_axis(ranked, final[:, :, None], 1)[:, :, design.tuning : count]
        chosen = again.mean(axis=2).argmax(axis=1)[:, None]
    winner = np.take_along_axis(final, chosen, 1)[:, :, None]
    runs = np.take_along_axis(scores, winner, 1)[:, 0, count:]
    true = np.where(np.isnan(runs), worst, runs).mean(axis=1)
    shown = np.take_along_axis(np.take_along_axis(tuned, order, 1), chosen, 1)[:, 0]
    finite = np.isfinite(shown)
    return float(true.mean()), float((shown - true)[finite].mean())


def replayed(repeats: int) -> NDArray[np.float64]:
    """True score and optimism of every design, of shape (landscapes, designs, 2)."""
    results = []
    for table in usable():
        scores = gathered(table, repeats)
        worst = table.normalise(float(np.nanmin(table.final)))
        results.append([outcome(scores, worst, design) for design in designs()])
        print(table.name, flush=True)
    return np.array(results)


def noise() -> tuple[float, float]:
    """Mean normalised score of a configuration, and the deviation of runs of good ones, over landscapes."""
    means, deviations = [], []
    for table in usable():
        low, high = table.ends
        means.append(table.normalise(float(table.means.mean())))
        averages = table.scores.mean(axis=1)
        good = np.argsort(-averages)[: len(averages) // 10]
        deviations.append(float(table.scores[good].std(axis=1, ddof=1).mean() / (high - low)))
    return float(np.mean(means)), float(np.mean(deviations))


def left_out(results: NDArray[np.float64]) -> None:
    """Print what designs reach on landscapes on which they were not chosen."""
    runs = np.array([design.runs for design in designs()])
    print(
        "runs  expected  reached ± over landscapes  error of expectation  best design  optimism expected, seen"
    )
    for budget in BUDGETS:
        fits = np.flatnonzero(runs <= budget)
        lines = []
        for landscape in range(len(results)):
            others = np.delete(results, landscape, axis=0)[:, fits].mean(axis=0)
            chosen = int(others[:, 0].argmax())
            here = results[landscape, fits]
            lines.append([*others[chosen], *here[chosen], here[:, 0].max()])
        expected, optimism, reached, seen, best = np.array(lines).T
        error = np.sqrt(np.mean((reached - expected) ** 2))
        spread = reached.std(ddof=1) / np.sqrt(len(reached))
        print(
            f"{budget:4}  {expected.mean():.3f}  {reached.mean():.3f} ± {spread:.3f}  {error:.3f}  "
            f"{best.mean():.3f}  {optimism.mean():.3f} {seen.mean():.3f}"
        )


def main() -> None:
    """Replay the designs, print the test, and write the table if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=2_000, help="searches on each landscape")
    parser.add_argument("--write", action="store_true", help="renew the table of rlexp plan")
    arguments = parser.parse_args()
    results = replayed(arguments.repeats)
    left_out(results)
    default, deviation = noise()
    rows = [
        [
            *(design.trials, design.tuning, design.promoted, design.selection, design.finalists),
            *(round(float(x), 4) for x in results[:, n].mean(axis=0)),
            *(round(float(x), 4) for x in results[:, n].std(axis=0, ddof=1)),
        ]
        for n, design in enumerate(designs())
    ]
    document = {
        "landscapes": len(results),
        "repeats": arguments.repeats,
        "default": round(default, 4),
        "deviation": round(deviation, 4),
        "columns": [
            *("trials", "tuning", "promoted", "selection", "finalists"),
            *("true", "optimism", "true_spread", "optimism_spread"),
        ],
    }
    if arguments.write:
        lines = ",\n".join(json.dumps(row) for row in rows)
        head = json.dumps(document)[:-1]
        TABLE.write_text(f'{head},\n"designs": [\n{lines}\n]}}\n')
    print(f"a random configuration {default:.3f}; deviation of runs of good ones {deviation:.3f}")


if __name__ == "__main__":
    main()
