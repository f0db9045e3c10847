"""PPO on Acrobot with new seeds, because 20 seeds a side left the comparison undecided.

The rule below was written, and committed, before the first of these runs. The seeds are new: those of
`compiled_agreement.py` had been seen when the rule was written, and are not used again.

The rule: 40 seeds a side at each interim analysis, at most two analyses. At each analysis the sequential test
of `rlexp gate` asks twice, with the margin of `compiled_agreement.py`: is the mean of the compiled side not worse than that of the library,
and is that of the library not worse than that of the compiled side. Both sides are equivalent if both answers are "not
worse". They are different if one answer is "worse". Either ends the training. Otherwise the verdict is undecided. A wrong answer to
one question has at most 5 %, over both analyses, as in the two one-sided tests of `rlexp compare`. A failed run is a missing score, and
there is no verdict.

The level holds for scores of the same distribution. If one run in ten never reaches the goal, its score is −500 and the
others have about −85; then the test is wrong more often. `--simulate` prints how often.

`python benchmarks/compiled_acrobot.py FOLDER`; the same command again continues what was interrupted.
"""

import argparse
import csv
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from compiled_agreement import CASES, RLEXP, ROOT_SEED, SEEDS, run_words
from numpy.typing import NDArray

from rlexp.stats.interval import Interval
from rlexp.stats.sequential.intervals import repeated_interval
from rlexp.stats.sequential.non_inferiority import Judgement, NonInferiorityDesign, judge

Array = NDArray[np.float64]

CASE = CASES["ppo_acrobot"]
EXPERIMENT = "ppo_acrobot_more_seeds"
NEW_ROOT_SEED = 126
"""These seeds were used for nothing else."""
DESIGN = NonInferiorityDesign(group=40, interims=2, margin=CASE.margin, alpha=0.1)
"""The two directions of a question share the level, so that each of them has 5 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Equivalence:
    """What the analyses so far say.

    Attributes:
        verdict: `equivalent`, `different` or `undecided`.
        analyses: The number of interim analyses.
        finished: Whether no further run can change the verdict.
        difference: Mean score of the compiled side less that of the library, with the repeated
            interval at the level of the test; None before the first analysis.
    """

    verdict: str
    analyses: int
    finished: bool
    difference: Interval | None


def equivalence(library: Array, compiled: Array) -> Equivalence:
    """The verdict of the rule.

    Args:
        library: Scores of stable-baselines3 in the order of the seeds, of shape (n,).
        compiled: Scores of the compiled side for the same seeds, of shape (n,).
    """
    answers = (judge(DESIGN, compiled, library), judge(DESIGN, library, compiled))
    judgements = {answer.judgement for answer in answers}
    verdict = "undecided"
    if judgements == {Judgement.NOT_WORSE}:
        verdict = "equivalent"
    elif Judgement.WORSE in judgements:
        verdict = "different"
    analyses = min(len(compiled) // DESIGN.group, DESIGN.interims)
    difference = None
    if analyses:
        sides = (s[: analyses * DESIGN.group].reshape(analyses, -1) for s in (compiled, library))
        difference = repeated_interval(DESIGN.sequential, *sides, excludes_zero=False)
    finished = verdict != "undecided" or analyses == DESIGN.interims
    return Equivalence(
        verdict=verdict, analyses=analyses, finished=finished, difference=difference
    )


def train(seeds: int, folder: Path) -> None:
    """Train what is missing of the first seeds."""
    changed = {
        f"seeds.root={ROOT_SEED}": f"seeds.root={NEW_ROOT_SEED}",
        f"seeds.test={SEEDS}": f"seeds.test={seeds}",
        "experiment=ppo_acrobot": f"experiment={EXPERIMENT}",
    }
    words = [changed.get(word, word) for word in run_words("ppo_acrobot")]
    subprocess.run([*RLEXP, *words, "--no-probe", "--quiet"], cwd=folder, check=True)


def scores_of(seeds: int, folder: Path) -> Mapping[str, Array]:
    """The scores of each side in the order of the seeds.

    Raises:
        ValueError: A run has no score.
    """
    file = folder / "scores.csv"
    words = ("export", "csv", EXPERIMENT, "--level", "runs", "--output", file, "--force")
    subprocess.run([*RLEXP, *words], cwd=folder, check=True, capture_output=True)
    with file.open() as lines:
        rows = list(csv.DictReader(lines))
    sides = {}
    for label in CASE.labels:
        scores = {int(row["seed"]): row["score"] for row in rows if row["label"] == label}
        missing = [seed for seed in range(seeds) if not scores.get(seed)]
        if missing:
            raise ValueError(f"{label} has no score for the seeds {missing}")
        sides[label] = np.array([float(scores[seed]) for seed in range(seeds)])
    return sides


def report(library: Array, compiled: Array) -> Equivalence:
    """Print the scores and the verdict."""
    result = equivalence(library, compiled)
    for label, scores in zip(CASE.labels, (library, compiled), strict=True):
        failed = int((scores <= -499).sum())
        print(
            f"{label}: {len(scores)} seeds, mean {scores.mean():.1f}, median {np.median(scores):.1f}, "
            f"lowest {scores.min():.1f}, highest {scores.max():.1f}, never at the goal {failed}"
        )
    print(
        f"analysis {result.analyses} of {DESIGN.interims}: {result.verdict}; {result.difference}"
    )
    return result


def simulate(library: float, compiled: float, repetitions: int = 400) -> str:
    """How often the rule calls sides equivalent that differ in their share of failed runs."""
    generator = np.random.default_rng(0)
    seeds = DESIGN.group * DESIGN.interims

    def draw(failing: float) -> Array:
        learned = generator.normal(-85, 3, seeds)
        return np.where(generator.random(seeds) < failing, -500, learned)

    drawn = [(draw(library), draw(compiled)) for _ in range(repetitions)]
    equivalent = sum(
        all(judge(DESIGN, *pair).judgement is Judgement.NOT_WORSE for pair in (sides, sides[::-1]))
        for sides in drawn
    )
    difference = (library - compiled) * 415
    return (
        f"{100 * library:.1f} % and {100 * compiled:.1f} % fail, difference {difference:.1f}, margin {DESIGN.margin}: "
        f"equivalent in {100 * (equivalent / repetitions):.1f} % of {repetitions}"
    )


def main() -> None:
    """Train group by group until the rule decides, and print the verdict."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the runs lie; the same one continues")
    parser.add_argument("--simulate", action="store_true", help="train nothing")
    options = parser.parse_args()
    if options.simulate:
        for shares in ((0.0, 0.0), (0.05, 0.0), (0.05, 0.025), (0.094, 0.0)):
            print(simulate(*shares), flush=True)
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    for analysis in range(1, DESIGN.interims + 1):
        seeds = analysis * DESIGN.group
        train(seeds, options.folder)
        scores = scores_of(seeds, options.folder)
        if report(*(scores[label] for label in CASE.labels)).finished:
            return


if __name__ == "__main__":
    main()
