"""How often a stream of candidates keeps what is no better, and what it finds, without any training.

Replays real landscapes: 1,000 streams of 50 candidates for each mix of null, bad and good
candidates. Prints the judgement of `rlexp propose` beside "keep if better" with one seed and with
three: `python benchmarks/candidates.py`, or parts of it: `python benchmarks/candidates.py seeds`.
Writes `benchmarks/results/candidates.json`.
"""

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from candidate_judges import KeepIfBetter, OnlineJudge, SignedRanks, UniformStakes
from candidate_streams import (
    CandidateJudge,
    CandidateMix,
    StreamHistories,
    Terrain,
    normal_terrain,
    simulate,
)
from landscape_table import usable

from rlexp.stats.sequential.candidates import StreamDesign

RESULTS = Path(__file__).parent / "results" / "candidates.json"
ALL_NULL = CandidateMix(name="all null", shares={"null": 1.0})
MOSTLY_NULL = CandidateMix(
    name="60 % null, 30 % bad, 10 % good", shares={"null": 0.6, "bad": 0.3, "good": 0.1}
)
HALF_GOOD = CandidateMix(
    name="20 % null, 30 % bad, 50 % good", shares={"null": 0.2, "bad": 0.3, "good": 0.5}
)
ANY = CandidateMix(name="configurations at random", shares={"any": 1.0})
SHOPPED = CandidateMix(name="chosen by the champion's scores", shares={"shopped": 1.0})

DEFAULT = OnlineJudge()
LOOPS: Mapping[str, CandidateJudge] = {
    "keep if better, 1 seed": KeepIfBetter(1),
    "keep if better, 3 seeds": KeepIfBetter(3),
    "each candidate at 5 %": OnlineJudge(corrected=False),
    "e-LOND": DEFAULT,
    "e-LOND, fresh seeds": OnlineJudge(fresh=True),
}
BETS: Mapping[str, CandidateJudge] = {
    "first to w wins (e-LOND)": DEFAULT,
    "uniform stakes": UniformStakes(),
    "signed ranks": SignedRanks(),
}
SEEDS: Mapping[str, CandidateJudge] = {
    f"{seeds} seeds, {'endless' if horizon is None else f'horizon {horizon}'}": OnlineJudge(
        design=StreamDesign(seeds=seeds, horizon=horizon)
    )
    for horizon in (None, 50)
    for seeds in (10, 12, 14, 16, 18, 20, 24, 32)
}
PARTS: Mapping[str, tuple[Mapping[str, CandidateJudge], tuple[CandidateMix, ...]]] = {
    "loops": (LOOPS, (ALL_NULL, MOSTLY_NULL, HALF_GOOD, ANY)),
    "shopping": (LOOPS, (SHOPPED,)),
    "normal": (LOOPS, (ALL_NULL, MOSTLY_NULL)),
    "bets": (BETS, (ALL_NULL, MOSTLY_NULL, ANY)),
    "seeds": (SEEDS, (MOSTLY_NULL,)),
}
NORMAL_MEANS, NORMAL_RUNS = np.linspace(0, 3, 13), 200
"""The configurations of the part `normal`, in standard deviations of their scores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MixResult:
    """What a judge does with a mix; means over streams, with standard errors where named.

    Attributes:
        mix: Name of the mix.
        judge: Name of the judge.
        fdr: False discovery rate; a keep is false where the candidate does not win more often than
            it loses against its champion.
        fdr_error: Its standard error.
        any_false: Share of the streams with a false keep.
        lower: Share of the keeps whose true score is not above that of their champion, averaged as
            the false discovery rate.
        keeps: Keeps per stream.
        power: Share of the better candidates that were kept.
        clear: The same of those that win a fresh seed with at least 90 %.
        start: True score of the first champion on the scale of the task.
        end: True score of the last champion.
        best: True score of the best candidate.
        runs: Trainings per stream.
    """

    mix: str
    judge: str
    fdr: float
    fdr_error: float
    any_false: float
    lower: float
    keeps: float
    power: float
    clear: float
    start: float
    end: float
    best: float
    runs: float


def cell(mix: CandidateMix, name: str, history: StreamHistories) -> MixResult:
    """The numbers of simulated streams."""
    shares = (history.kept & history.false).sum(axis=0) / np.maximum(history.kept.sum(axis=0), 1)
    return MixResult(
        mix=mix.name,
        judge=name,
        fdr=history.false_discovery_rate,
        fdr_error=float(shares.std(ddof=1) / np.sqrt(len(shares))),
        any_false=history.any_false,
        lower=history.share_among_keeps(history.lower),
        keeps=float(history.kept.sum(axis=0).mean()),
        power=history.power(history.good),
        clear=history.power(history.clear),
        start=float(history.start.mean()),
        end=float(history.end.mean()),
        best=float(history.best.mean()),
        runs=float(history.runs.sum(axis=0).mean()),
    )


def line(result: MixResult) -> str:
    """A row of the printed table."""
    shares = (
        f"{100 * result.fdr:.1f} ± {100 * result.fdr_error:.1f}",
        *(f"{100 * share:.1f}" for share in (result.any_false, result.lower)),
        f"{result.keeps:.2f}",
        *(
            "–" if np.isnan(share) else f"{100 * share:.0f}"
            for share in (result.power, result.clear)
        ),
        f"{result.start:.2f} → {result.end:.2f} (best {result.best:.2f})",
        f"{result.runs:.0f}",
    )
    return f"| {result.mix} | {result.judge} | {' | '.join(shares)} |"


def main() -> None:
    """Simulate the requested parts, and keep earlier results of the others."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--streams", type=int, default=1_000)
    parser.add_argument("--candidates", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; parts: {', '.join(PARTS)}")
    if arguments.streams < 2 or arguments.candidates < 1:
        parser.error("a standard error takes --streams 2 or more, and --candidates 1 or more")
    landscapes = Terrain(usable())
    normal = normal_terrain(NORMAL_MEANS, NORMAL_RUNS, np.random.default_rng(arguments.seed))
    RESULTS.parent.mkdir(exist_ok=True)
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    print(
        "| candidates | judged by | FDR, % | any false, % | lower, % | keeps | better kept, %",
        end="",
    )
    print(" | clearly better kept, % | true score | runs |\n" + "|---" * 10 + "|")
    for part in arguments.parts or PARTS:
        judges, mixes = PARTS[part]
        settings = {"streams": arguments.streams, "candidates": arguments.candidates}
        results[part] = {**settings, "seed": arguments.seed, "cells": (cells := [])}
        for mix in mixes:
            for name, judge in judges.items():
                history = simulate(
                    normal if part == "normal" else landscapes,
                    judge,
                    mix,
                    streams=arguments.streams,
                    candidates=arguments.candidates,
                    generator=np.random.default_rng(arguments.seed),
                )
                result = cell(mix, name, history)
                print(line(result), flush=True)
                cells.append(asdict(result))
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
