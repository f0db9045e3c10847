"""How often `rlexp gate` is wrong, how often it finds a loss, and how many seeds it needs.

Draws baselines and candidates from normal scores, from skewed scores, and from the trainings of a
landscape, whose seeds are drawn with replacement. The candidate's scores are shifted by 0 to 3
margins. Prints, for each shift, the shares of the three judgements and the mean number of seeds, as
the table of `docs/guides/gate.md`: `python benchmarks/gate.py`.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.sequential.non_inferiority import Judgement, NonInferiorityDesign, judge

Array = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Array]
"""Draws n scores whose standard deviation is about 1."""

LOSSES = (0.0, 1.0, 2.0, 3.0)
"""How much worse the candidate is, in margins."""
MARGINS = (1.0, 1.5)
"""The margin, in standard deviations of the scores."""
SEEDS = (20, 30)
"""Seeds of the baseline."""
GROUP, ALPHA = 5, 0.05


def normal(generator: np.random.Generator, count: int) -> Array:
    """Standard normal scores, of shape (n,)."""
    return generator.normal(size=count)


def skewed(generator: np.random.Generator, count: int) -> Array:
    """Scores with a long tail of failures: the negative of an exponential law, of shape (n,)."""
    return -generator.exponential(size=count)


def trained(name: str) -> Draw:
    """Scores of real trainings: the best third of the configurations of a landscape, standardised.

    A study draws one configuration, and its seeds with replacement.
    """
    from landscape_table import load, without_crashes

    final = without_crashes(load(name).returns)[:, :, -1]
    complete = final[np.isfinite(final).all(axis=1) & (final.std(axis=1) > 0)]
    order = np.argsort(complete.mean(axis=1))[-max(len(complete) // 3, 1) :]
    rows = complete[order]
    scores = (rows - rows.mean(axis=1, keepdims=True)) / rows.std(axis=1, keepdims=True)

    def draw(generator: np.random.Generator, count: int) -> Array:
        row = scores[generator.integers(len(scores))]
        return np.asarray(generator.choice(row, size=count))

    return draw


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What a gate does with candidates of one kind.

    Attributes:
        loss: How much worse the candidates are, in margins.
        shares: Share of the studies with each judgement.
        seeds: Mean number of the candidate's seeds that were trained.
        studies: Number of simulated studies.
    """

    loss: float
    shares: Mapping[Judgement, float]
    seeds: float
    studies: int


def simulate(
    design: NonInferiorityDesign,
    draw: Draw,
    losses: Sequence[float],
    studies: int,
    generator: np.random.Generator,
) -> Iterator[Operation]:
    """Simulate gates whose candidates are worse by a number of margins.

    Args:
        design: The design of every gate.
        draw: Draws scores; both sides of a study come from one call.
        losses: How much worse the candidates are, in margins.
        studies: Number of studies of each loss.
        generator: Draws all scores.
    """
    seeds = design.group * design.interims
    for loss in losses:
        endings = []
        for _ in range(studies):
            scores = draw(generator, 2 * seeds)
            candidate = scores[:seeds] - loss * design.margin
            endings.append(judge(design, candidate, scores[seeds:]))
        yield Operation(
            loss=loss,
            shares={j: sum(e.judgement is j for e in endings) / studies for j in Judgement},
            seeds=sum(e.seeds for e in endings) / studies,
            studies=studies,
        )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    laws: dict[str, Draw] = {"normal": normal, "skewed": skewed}
    laws |= {name: trained(name) for name in ("cc_cartpole_ppo", "cc_acrobot_dqn")}
    print("| scores | margin | seeds | loss | not worse | worse | undecided | mean seeds |")
    print("|---|---|---|---|---|---|---|---|")
    for name, draw in laws.items():
        for margin in MARGINS:
            for seeds in SEEDS:
                design = NonInferiorityDesign(
                    group=GROUP, interims=seeds // GROUP, margin=margin, alpha=ALPHA
                )
                generator = np.random.default_rng(arguments.seed)
                for row in simulate(design, draw, LOSSES, arguments.studies, generator):
                    shares = " | ".join(f"{100 * row.shares[j]:.1f}" for j in Judgement)
                    print(
                        f"| {name} | {margin:g} sd | {seeds} | {row.loss:g} | {shares} | {row.seeds:.1f} |"
                    )


if __name__ == "__main__":
    main()
