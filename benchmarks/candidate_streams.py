"""StreamHistories of candidates on real landscapes: every score is a tabulated training, drawn at random.

A configuration has ten trainings. They are its population here: a run on a seed is one of them,
drawn with replacement, so that the truth is exact. Trainings of different configurations are
independent of each other on all seeds; a landscape says nothing of what common seeds share.

Shapes: S streams, L landscapes of C configurations with r runs each; N seeds of a candidate.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, Protocol

import numpy as np
from landscape_table import Landscape
from numpy.typing import ArrayLike, NDArray

from rlexp.stats.sequential.candidates import seed_signs

Array = NDArray[np.float64]
Counts = NDArray[np.int64]
Mask = NDArray[np.bool_]
Kind = Literal["null", "bad", "good", "any", "shopped"]
"""A candidate is the champion's configuration again, a worse or a better one than the champion, any
configuration, or, of those that are not better, the one that beats the champion's scores best."""

START = (0.25, 0.75)
"""Quantiles of the true scores between which the first champion lies."""
CLEAR = 0.9
"""A candidate is clearly better where it wins a fresh seed with at least this probability."""


@dataclass(frozen=True)
class Terrain:
    """Several landscapes, and what is true of them.

    Attributes:
        landscapes: With the same number of configurations and runs.
    """

    landscapes: Sequence[Landscape]

    @cached_property
    def runs(self) -> Array:
        """Score of every run, of shape (L, C, r); NaN where the training failed."""
        return np.array([landscape.final for landscape in self.landscapes])

    @cached_property
    def true(self) -> Array:
        """Mean score on the scale of the task, failures as its worst score, of shape (L, C)."""
        return np.array(
            [
                [landscape.normalise(score) for score in landscape.scores.mean(axis=1)]
                for landscape in self.landscapes
            ]
        )

    @cached_property
    def wins(self) -> Array:
        """Probability that a run of the first beats one of the second, of shape (L, C, C)."""
        ranked = np.where(np.isnan(self.runs), -np.inf, self.runs)
        pairs = ranked[:, :, None, :, None] > ranked[:, None, :, None, :]
        return np.asarray(pairs.mean(axis=(3, 4)))

    @cached_property
    def beats(self) -> Mask:
        """Whether a configuration wins more often than it loses, of shape (L, C, C)."""
        return np.asarray(self.wins > self.wins.transpose(0, 2, 1))

    @cached_property
    def starts(self) -> Mask:
        """Configurations that may be the first champion, of shape (L, C)."""
        low, high = np.quantile(self.true, START, axis=1)
        return np.asarray((self.true >= low[:, None]) & (self.true <= high[:, None]))


def normal_terrain(means: ArrayLike, runs: int, generator: np.random.Generator) -> Terrain:
    """A landscape of normal scores with standard deviation 1, which hardly ever tie.

    Args:
        means: Mean score of each configuration.
        runs: Number r of runs of each.
        generator: Draws the runs.
    """
    locations = np.asarray(means, np.float64)
    scores = generator.normal(locations[:, None], size=(len(locations), runs))
    rows = tuple({"number": number} for number in range(len(locations)))
    return Terrain([Landscape("normal", rows, (1,), scores[:, :, None])])


class CandidateJudge(Protocol):
    """A way to judge candidates.

    Attributes:
        seeds: Most seeds of a candidate.
        fresh: Whether every candidate has fresh seeds, on which the champion is trained again.
    """

    @property
    def seeds(self) -> int:
        """As the attribute."""

    @property
    def fresh(self) -> bool:
        """As the attribute."""

    def judge(
        self, candidate: Array, champion: Array, number: int, kept: Counts
    ) -> tuple[Mask, Counts]:
        """Judge one candidate of every stream.

        Args:
            candidate: Its scores by seed, of shape (S, N); NaN for a failed run.
            champion: Scores of the champion, of the same shape.
            number: Number of the candidate in its stream, from 1.
            kept: Candidates that the stream kept before, of shape (S,).

        Returns:
            Whether it is kept, and the seeds used, of shape (S,).
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateMix:
    """Shares of the kinds of candidates in a stream.

    Attributes:
        name: In the printed table.
        shares: Of each kind; they sum to 1.
    """

    name: str
    shares: Mapping[Kind, float]


@dataclass(kw_only=True)
class StreamHistories:
    """What happened in S streams of T candidates; the arrays are of shape (T, S).

    Attributes:
        kept: Whether the candidate was kept.
        false: Whether it does not win more often than it loses against its champion.
        lower: Whether its true score is not above that of its champion.
        good: Whether it was proposed as a better one: neither false nor lower.
        clear: Whether it is good and wins a fresh seed with at least 90 %.
        runs: Trainings that were needed, of candidate and champion.
        end: True score of the last champion, of shape (S,).
        start: True score of the first champion, of shape (S,).
        best: True score of the best configuration that was a candidate or the first champion, (S,).
    """

    kept: Mask
    false: Mask
    lower: Mask
    good: Mask
    clear: Mask
    runs: Counts
    end: Array = field(default_factory=lambda: np.empty(0))
    start: Array = field(default_factory=lambda: np.empty(0))
    best: Array = field(default_factory=lambda: np.empty(0))

    @property
    def false_discovery_rate(self) -> float:
        """Mean over streams of false keeps / max(keeps, 1)."""
        return self.share_among_keeps(self.false)

    @property
    def any_false(self) -> float:
        """Share of the streams with a false keep."""
        return float((self.kept & self.false).any(axis=0).mean())

    def share_among_keeps(self, mask: Mask) -> float:
        """Mean over streams of the share of a mask of shape (T, S) among the keeps."""
        keeps = np.maximum(self.kept.sum(axis=0), 1)
        return float(((self.kept & mask).sum(axis=0) / keeps).mean())

    def power(self, mask: Mask) -> float:
        """Share of the candidates of a mask that were kept; NaN where there is none."""
        return float(self.kept[mask].mean()) if mask.any() else float("nan")


def simulate(
    terrain: Terrain,
    judge: CandidateJudge,
    mix: CandidateMix,
    *,
    streams: int,
    candidates: int,
    generator: np.random.Generator,
) -> StreamHistories:
    """Let a judge judge streams of candidates.

    Args:
        terrain: The landscapes, which the streams use in turn.
        judge: Who judges.
        mix: What is proposed. Kinds are relative to the champion at that time.
        streams: Number S of streams.
        candidates: Number T of candidates of each.
        generator: Draws all configurations and runs.
    """
    land = np.arange(streams) % len(terrain.landscapes)
    champion = _choose(terrain.starts[land], generator)
    held = _scores(terrain, land, champion, judge.seeds, generator)
    trained = np.zeros(streams, dtype=np.int64)
    history = _no_history((candidates, streams), terrain.true[land, champion])
    best = history.start
    for step in range(candidates):
        kinds = generator.choice(len(mix.shares), size=streams, p=list(mix.shares.values()))
        candidate = _candidates(terrain, list(mix.shares), kinds, land, champion, held, generator)
        scores = _scores(terrain, land, candidate, judge.seeds, generator)
        if judge.fresh:
            held = _scores(terrain, land, champion, judge.seeds, generator)
            trained[:] = 0
        kept, used = judge.judge(scores, held, step + 1, history.kept[:step].sum(axis=0))
        gain = terrain.true[land, candidate] - terrain.true[land, champion]
        history.kept[step] = kept
        history.false[step] = ~terrain.beats[land, candidate, champion]
        history.lower[step] = gain <= 0
        history.good[step] = ~history.false[step] & ~history.lower[step]
        history.clear[step] = history.good[step] & (
            terrain.wins[land, candidate, champion] >= CLEAR
        )
        history.runs[step] = used + np.maximum(used - trained, 0)
        trained = np.where(kept, used, np.maximum(trained, used))
        best = np.maximum(best, terrain.true[land, candidate])
        champion = np.where(kept, candidate, champion)
        held = np.where(kept[:, None], scores, held)
    history.end, history.best = terrain.true[land, champion], best
    return history


def _no_history(shape: tuple[int, int], start: Array) -> StreamHistories:
    """Streams of shape (T, S) in which nothing has happened."""
    masks = [np.zeros(shape, bool) for _ in range(5)]
    kept, false, lower, good, clear = masks
    runs = np.zeros(shape, np.int64)
    return StreamHistories(
        kept=kept, false=false, lower=lower, good=good, clear=clear, runs=runs, start=start
    )


def _candidates(
    terrain: Terrain,
    order: Sequence[Kind],
    kinds: Counts,
    land: Counts,
    champion: Counts,
    held: Array,
    generator: np.random.Generator,
) -> Counts:
    """A configuration for every stream, of the kind at its position in the order, of shape (S,)."""
    candidate = champion.copy()
    for position, kind in enumerate(order):
        rows = np.flatnonzero(kinds == position)
        candidate[rows] = _propose(
            terrain, kind, land[rows], champion[rows], held[rows], generator
        )
    return candidate


def _propose(
    terrain: Terrain,
    kind: Kind,
    land: Counts,
    champion: Counts,
    held: Array,
    generator: np.random.Generator,
) -> Counts:
    """Configurations of a kind, of shape (S,); the champion's where there is none of the kind."""
    standing = terrain.true[land, champion][:, None]
    wins, true = terrain.beats[land, :, champion], terrain.true[land]
    if kind == "null":
        return champion
    if kind == "any":
        return _choose(np.ones_like(wins), generator)
    if kind == "shopped":
        return _shop(terrain, land, held, ~wins)
    allowed = wins & (true > standing) if kind == "good" else ~wins & (true < standing)
    return np.where(allowed.any(axis=1), _choose(allowed, generator), champion)


def _shop(terrain: Terrain, land: Counts, held: Array, allowed: Mask) -> Counts:
    """Of the allowed configurations, the one that wins most seeds against the scores held.

    The champion wins no more often than it loses against itself, so that one is always allowed.
    """
    chosen = np.zeros(len(land), dtype=np.int64)
    for stream, scores in enumerate(held):
        runs = terrain.runs[land[stream]]
        pairs, against = np.broadcast_arrays(runs[:, :, None], scores)
        signs = seed_signs(pairs, against, 0.0)
        won = np.where(allowed[stream], (signs > 0).mean(axis=1).prod(axis=1), -1)
        chosen[stream] = won.argmax()
    return chosen


def _choose(allowed: Mask, generator: np.random.Generator) -> Counts:
    """One allowed configuration of every row at random, of shape (S,)."""
    drawn = np.where(allowed, generator.random(allowed.shape), -1)
    return np.asarray(drawn.argmax(axis=1))


def _scores(
    terrain: Terrain, land: Counts, rows: Counts, seeds: int, generator: np.random.Generator
) -> Array:
    """Scores of a configuration of every stream on new seeds, of shape (S, N)."""
    runs = terrain.runs.shape[2]
    drawn = generator.integers(runs, size=(len(land), seeds))
    return np.asarray(terrain.runs[land[:, None], rows[:, None], drawn])
