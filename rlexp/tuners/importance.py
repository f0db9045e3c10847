"""How much depends on each parameter of a sweep: PED-ANOVA and fANOVA of its trials."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlexp.protocol.space import Choice, Domain, Integer, Space
from rlexp.stats.interval import Interval
from rlexp.stats.sensitivity.functional_anova import (
    Grid,
    bagged,
    cross_validated_r2,
    grow,
    main_effects,
    pair_effects,
)
from rlexp.stats.sensitivity.ped_anova import STEPS, Observed, best, divergences
from rlexp.stats.shares import resamples, seeded, share_intervals, summing_to_one
from rlexp.stats.task_scores import min_max

Numbers = NDArray[np.float64]
Rows = NDArray[np.intp]

PED_ANOVA, FANOVA = "PED-ANOVA", "fANOVA"
FEWEST = 20
"""Trials below which nothing is said."""
MANY = 100
"""Trials from which on a forest is known to do well."""
MOST = 1_000
"""Trials that a forest is grown from, at most: time is bounded."""
QUANTILE = 0.1
"""Share of the trials that are the best, for PED-ANOVA."""
FEWEST_BEST = 5
"""Best trials that it needs, whatever their share."""
CELLS = 32
"""Cells that a range is cut into, for fANOVA."""
TREES, TREES_OF_A_FOLD, TREES_OF_A_RESAMPLE = 64, 32, 16
RESAMPLES = {PED_ANOVA: 100, FANOVA: 50}
LEAST_R2 = 0.3
"""Cross-validated R² of the forest below which shares of its variance are shares of noise."""
PAIRS = 5
"""Pairs of parameters that are told, at most."""
NOTHING_ALONE = "no parameter changes the forest's prediction alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Importance:
    """How much the objective depends on each parameter, by one method.

    Attributes:
        method: `PED-ANOVA` or `fANOVA`.
        shares: By parameter, summing to 1, with intervals over resampled trials; `n` counts
            trials. Empty where `reason` says why.
        pairs: By two parameters, the largest first: the share of what all do alone and in pairs
            that these two do together. Of fANOVA only.
        quality: Cross-validated R² of the surrogate, where there is one.
        reason: Why there are no shares.
        note: What the shares rest on, in sentences.
    """

    method: str
    shares: Mapping[str, Interval] = field(default_factory=dict)
    pairs: Mapping[tuple[str, str], float] = field(default_factory=dict)
    quality: float | None = None
    reason: str | None = None
    note: str = ""


def importances(
    space: Space, trials: Sequence[tuple[Mapping[str, Any], float]], seed: int
) -> tuple[Importance, ...]:
    """The importance of every parameter by PED-ANOVA, then by fANOVA.

    PED-ANOVA says which parameters tell the best tenth of the trials from all of them, fANOVA how
    much the value varies with each over the whole space. Where a trial does not have a parameter,
    PED-ANOVA puts it into a regime of its own, and fANOVA takes the middle of the range. Neither
    depends on the order of the trials.

    Args:
        space: What was searched; importance is on the scale of each range.
        trials: Parameters and value, greater is better, of each trial that was complete on all
            tuning seeds at the full budget.
        seed: Of forests, folds and resamples.
    """
    own = _Trials.read(space, trials)
    if reason := own.too_little:
        return tuple(Importance(method=method, reason=reason) for method in RESAMPLES)
    return _ped_anova(own, seed), _fanova(own, seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trials:
    """Trials in an order of their own.

    Attributes:
        points: Of shape (trials, parameters), in the unit cube; NaN where a trial has no value.
        values: Of shape (trials,), from 0 to 1.
        left_out: Trials that are not among them, as they have no finite value.
    """

    space: Space
    points: Numbers
    values: Numbers
    left_out: int

    @classmethod
    def read(cls, space: Space, trials: Sequence[tuple[Mapping[str, Any], float]]) -> "_Trials":
        """Sort them: neither draws nor sums may depend on the order in which they came."""
        known = [(parameters, value) for parameters, value in trials if math.isfinite(value)]
        encoded = [space.encode(parameters) for parameters, _ in known]
        points = np.array(encoded, dtype=np.float64).reshape(-1, len(space.parameters))
        values = _scaled(np.array([value for _, value in known], dtype=np.float64))
        order = np.lexsort((*np.nan_to_num(points, nan=-1.0).T, values))
        lacking = len(trials) - len(known)
        return cls(space=space, points=points[order], values=values[order], left_out=lacking)

    @property
    def told(self) -> str:
        """How many there are."""
        lacking = f" ({self.left_out} more have no finite value)" if self.left_out else ""
        return f"{len(self.values):,} complete trials{lacking}"

    @property
    def too_little(self) -> str | None:
        """Why nothing can be said, where that is so."""
        if len(self.values) < FEWEST:
            return f"{self.told} are too few: {FEWEST} are needed"
        return f"{self.told} all have the same value" if np.ptp(self.values) == 0 else None


def _scaled(values: Numbers) -> Numbers:
    """From 0 to 1, so that no square of a diverged return overflows; zeros if all are equal."""
    values = values / (np.abs(values).max(initial=0.0) or 1.0)
    low, high = values.min(initial=1.0), values.max(initial=-1.0)
    return min_max(values, low, high) if low < high else np.zeros_like(values)


def _ped_anova(trials: _Trials, seed: int) -> Importance:
    domains = [p.domain for p in trials.space.parameters]
    observed = [_observed(domain, trials.points[:, d]) for d, domain in enumerate(domains)]
    quantile = max(QUANTILE, FEWEST_BEST / len(trials.values))

    def shares(rows: Rows) -> Numbers:
        own = [one.drawn(rows) for one in observed]
        return summing_to_one(divergences(own, best(trials.values[rows], quantile)))

    estimate = shares(np.arange(len(trials.values)))
    if not estimate.any():
        reason = f"the best of {trials.told} do not differ from the others in any parameter"
        return Importance(method=PED_ANOVA, reason=reason)
    resampled = [
        shares(rows) for rows, _ in resamples(len(trials.values), RESAMPLES[PED_ANOVA], seed)
    ]
    top = np.count_nonzero(best(trials.values, quantile))
    return Importance(
        method=PED_ANOVA,
        shares=_shares(trials, estimate, resampled, seed),
        note=f"From the best {top:,} of {trials.told}.",
    )


def _shares(
    trials: _Trials, estimate: Numbers, resampled: Sequence[Numbers], seed: int
) -> dict[str, Interval]:
    found = share_intervals(estimate, resampled, len(trials.values), seed)
    return dict(zip(trials.space.keys, found, strict=True))


def _observed(domain: Domain, shares: Numbers) -> Observed:
    """The values of a parameter on the grid that Optuna's evaluator rounds them to."""
    there = np.isfinite(shares)
    known = np.where(there, shares, 0.0)
    match domain:
        case Choice():
            size, points = len(domain.values), np.floor(known * len(domain.values))
        case Integer():
            size = _integer_steps(domain)
            points = np.floor(known * size)
        case _:
            size, points = STEPS, np.ceil(known * (STEPS - 1) - 0.5)
    inside = np.clip(points, 0, size - 1).astype(np.intp)
    return Observed(np.where(there, inside, -1), size, ordered=not isinstance(domain, Choice))


def _integer_steps(domain: Integer) -> int:
    count = domain.high - domain.low + 1
    return min(math.ceil(math.log2(count)) + 1 if domain.log else count, STEPS)


def _fanova(trials: _Trials, seed: int) -> Importance:
    own = _thinned(trials, seed)
    grid = Grid.from_unit(own.points, [_cells(p.domain) for p in own.space.parameters])
    quality = cross_validated_r2(grid, own.values, TREES_OF_A_FOLD, seeded(seed, 1))
    if quality < LEAST_R2:
        reason = (
            f"the forest does not foresee the value of trials that it was not grown from "
            f"(cross-validated R² {quality:.2f}, {LEAST_R2} is needed): its shares would be "
            "shares of noise"
        )
        return Importance(method=FANOVA, quality=quality, reason=reason)
    forest = grow(grid, own.values, bagged(np.arange(len(own.values)), TREES, seeded(seed, 2)))
    alone = main_effects(forest, grid.sizes)
    if not alone.any():
        return Importance(method=FANOVA, quality=quality, reason=NOTHING_ALONE)
    resampled = [
        grow(grid, own.values, bagged(rows, TREES_OF_A_RESAMPLE, generator))
        for rows, generator in resamples(len(own.values), RESAMPLES[FANOVA], seed)
    ]
    effects = [summing_to_one(main_effects(one, grid.sizes)) for one in resampled]
    return Importance(
        method=FANOVA,
        shares=_shares(own, summing_to_one(alone), effects, seed),
        pairs=_pairs(own.space.keys, alone, pair_effects(forest, grid.sizes)),
        quality=quality,
        note=_note(trials, own),
    )


def _thinned(trials: _Trials, seed: int) -> _Trials:
    """So many trials, drawn at random, that forests of them take seconds."""
    if len(trials.values) <= MOST:
        return trials
    rows = np.sort(seeded(seed, 0).choice(len(trials.values), MOST, replace=False))
    return replace(trials, points=trials.points[rows], values=trials.values[rows])


def _cells(domain: Domain) -> int:
    match domain:
        case Choice():
            return len(domain.values)
        case Integer() if not domain.log:
            return min(domain.high - domain.low + 1, CELLS)
        case _:
            return CELLS


def _pairs(
    keys: tuple[str, ...], alone: Numbers, together: Mapping[tuple[int, int], float]
) -> dict[tuple[str, str], float]:
    total = float(alone.sum()) + math.fsum(together.values())
    largest = sorted(together.items(), key=lambda item: (-item[1], item[0]))[:PAIRS]
    return {(keys[a], keys[b]): effect / total for (a, b), effect in largest}


def _note(trials: _Trials, own: _Trials) -> str:
    count = f"{len(own.values):,} of " if own is not trials else ""
    drawn = ", drawn at random" if own is not trials else ""
    few = f" Forests do better with {MANY} trials or more." if len(own.values) < MANY else ""
    return f"From {count}{trials.told}{drawn}.{few}"
