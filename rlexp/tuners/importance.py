"""Importance of the parameters of a sweep: PED-ANOVA and fANOVA of its trials."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlexp.protocol.space import Choice, Domain, Integer, Space
from rlexp.stats.interval import Interval
from rlexp.stats.sensitivity.functional_anova import (
    cross_validated_r2,
    main_effects,
    pair_effects,
)
from rlexp.stats.sensitivity.ped_anova import STEPS, Observed, best, divergences
from rlexp.stats.sensitivity.regression_forest import UnitGrid, bagged, grow
from rlexp.stats.share_intervals import resamples, seeded, share_intervals, summing_to_one
from rlexp.stats.task_scores import min_max

Numbers = NDArray[np.float64]
Rows = NDArray[np.intp]

PED_ANOVA, FANOVA = "PED-ANOVA", "fANOVA"
MIN_TRIALS = 20
"""Fewest trials for an estimate."""
RECOMMENDED_TRIALS = 100
"""Trials from which on a forest is reliable; below, the note says so."""
MAX_FOREST_TRIALS = 1_000
"""Most trials of a forest, which bounds the time."""
QUANTILE = 0.1
"""Share of the best trials in PED-ANOVA."""
MIN_BEST_TRIALS = 5
"""Fewest best trials in PED-ANOVA."""
CELLS_PER_RANGE = 32
"""Cells of a range in fANOVA."""
TREES, TREES_PER_FOLD, TREES_PER_RESAMPLE = 64, 32, 16
RESAMPLES = {PED_ANOVA: 100, FANOVA: 50}
MIN_R2 = 0.3
"""Smallest cross-validated R² of a forest; below it, shares of variance are mostly noise."""
MAX_PAIRS = 5
"""Most reported pairs of parameters."""
NO_MAIN_EFFECTS = "no single parameter changes the prediction of the forest"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterImportance:
    """The importance of each parameter for the objective, by one method.

    Attributes:
        method: `PED-ANOVA` or `fANOVA`.
        shares: Share of each parameter, summing to 1, with intervals over resampled trials; `n`
            is the number of trials. Empty if there is a `reason`.
        pairs: Share of the interaction of two parameters in the variance of all main effects and
            pairs, largest first. Only fANOVA has pairs.
        quality: Cross-validated R² of the surrogate, if there is one.
        reason: Why there are no shares.
        note: On how many trials the shares are based, in sentences.
    """

    method: str
    shares: Mapping[str, Interval] = field(default_factory=dict)
    pairs: Mapping[tuple[str, str], float] = field(default_factory=dict)
    quality: float | None = None
    reason: str | None = None
    note: str = ""


def importances(
    space: Space, trials: Sequence[tuple[Mapping[str, Any], float]], seed: int
) -> tuple[ParameterImportance, ...]:
    """The importance of every parameter by PED-ANOVA, then by fANOVA.

    PED-ANOVA measures how much the best tenth of the trials differ from all trials in each
    parameter; fANOVA measures how much the value varies with each parameter over the whole space.
    An inactive parameter is a separate regime in PED-ANOVA, and the middle of its range in fANOVA.
    Neither method depends on the order of the trials.

    Args:
        space: The searched space; importance is measured on the scale of each range.
        trials: Parameters and value (greater is better) of each trial that is complete on all
            tuning seeds at the full budget.
        seed: The seed of forests, folds and resamples.
    """
    table = _TrialTable.read(space, trials)
    if reason := table.reason_to_skip:
        return tuple(ParameterImportance(method=method, reason=reason) for method in RESAMPLES)
    return _ped_anova(table, seed), _fanova(table, seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class _TrialTable:
    """Trials with finite values as arrays, in a canonical order.

    Attributes:
        space: The searched space.
        points: Points of the unit cube, of shape (trials, parameters); NaN if inactive.
        values: Values scaled from 0 to 1, of shape (trials,).
        left_out: Number of trials without a finite value, which are left out.
    """

    space: Space
    points: Numbers
    values: Numbers
    left_out: int

    @classmethod
    def read(
        cls, space: Space, trials: Sequence[tuple[Mapping[str, Any], float]]
    ) -> "_TrialTable":
        """A table of the trials with finite values."""
        # Sorted, so that no random draw and no floating-point sum depends on the order of trials.
        finite = [(parameters, value) for parameters, value in trials if math.isfinite(value)]
        encoded = [space.encode(parameters) for parameters, _ in finite]
        points = np.array(encoded, dtype=np.float64).reshape(-1, len(space.parameters))
        values = _scaled_to_unit(np.array([value for _, value in finite], dtype=np.float64))
        # −1 lies outside of the unit interval, so an inactive parameter differs from every value.
        order = np.lexsort((*np.nan_to_num(points, nan=-1.0).T, values))
        lacking = len(trials) - len(finite)
        return cls(space=space, points=points[order], values=values[order], left_out=lacking)

    @property
    def description(self) -> str:
        """The number of trials, in words."""
        lacking = f" ({self.left_out} more have no finite value)" if self.left_out else ""
        return f"{len(self.values):,} complete trials{lacking}"

    @property
    def reason_to_skip(self) -> str | None:
        """Why no importance can be estimated; None if it can."""
        if len(self.values) < MIN_TRIALS:
            return f"{self.description} are too few: {MIN_TRIALS} are needed"
        return f"{self.description} all have the same value" if np.ptp(self.values) == 0 else None


def _scaled_to_unit(values: Numbers) -> Numbers:
    """The values scaled from 0 to 1; zeros if all are equal."""
    # Squares of diverged returns would overflow: divide by the greatest value first.
    values = values / (np.abs(values).max(initial=0.0) or 1.0)
    low, high = values.min(initial=1.0), values.max(initial=-1.0)
    return min_max(values, low, high) if low < high else np.zeros_like(values)


def _ped_anova(trials: _TrialTable, seed: int) -> ParameterImportance:
    domains = [p.domain for p in trials.space.parameters]
    observed = [_observed(domain, trials.points[:, d]) for d, domain in enumerate(domains)]
    # A density of fewer than five trials is meaningless, whatever share of the trials they are.
    quantile = max(QUANTILE, MIN_BEST_TRIALS / len(trials.values))

    def shares(rows: Rows) -> Numbers:
        drawn = [parameter.drawn(rows) for parameter in observed]
        return summing_to_one(divergences(drawn, best(trials.values[rows], quantile)))

    estimate = shares(np.arange(len(trials.values)))
    if not estimate.any():
        reason = f"the best of {trials.description} differ from the others in no parameter"
        return ParameterImportance(method=PED_ANOVA, reason=reason)
    resampled = [
        shares(rows) for rows, _ in resamples(len(trials.values), RESAMPLES[PED_ANOVA], seed)
    ]
    top = np.count_nonzero(best(trials.values, quantile))
    return ParameterImportance(
        method=PED_ANOVA,
        shares=_share_intervals(trials, estimate, resampled, seed),
        note=f"From the best {top:,} of {trials.description}.",
    )


def _share_intervals(
    trials: _TrialTable, estimate: Numbers, resampled: Sequence[Numbers], seed: int
) -> dict[str, Interval]:
    intervals = share_intervals(estimate, resampled, len(trials.values), seed)
    return dict(zip(trials.space.keys, intervals, strict=True))


def _observed(domain: Domain, shares: Numbers) -> Observed:
    """The values of a parameter, rounded to the same grid as in Optuna's PED-ANOVA evaluator."""
    is_active = np.isfinite(shares)
    filled = np.where(is_active, shares, 0.0)
    match domain:
        case Choice():
            size, points = len(domain.values), np.floor(filled * len(domain.values))
        case Integer():
            size = _integer_steps(domain)
            points = np.floor(filled * size)
        case _:
            size, points = STEPS, np.ceil(filled * (STEPS - 1) - 0.5)
    # A share of exactly 1 would otherwise fall behind the last cell.
    inside = np.clip(points, 0, size - 1).astype(np.intp)
    return Observed(np.where(is_active, inside, -1), size, ordered=not isinstance(domain, Choice))


def _integer_steps(domain: Integer) -> int:
    count = domain.high - domain.low + 1
    return min(math.ceil(math.log2(count)) + 1 if domain.log else count, STEPS)


def _fanova(trials: _TrialTable, seed: int) -> ParameterImportance:
    sample = _subsample(trials, seed)
    grid = UnitGrid.from_unit(
        sample.points, [_cell_count(p.domain) for p in sample.space.parameters]
    )
    quality = cross_validated_r2(grid, sample.values, TREES_PER_FOLD, seeded(seed, 1))
    if quality < MIN_R2:
        reason = (
            f"the forest does not predict the values of held-out trials "
            f"(cross-validated R² {quality:.2f}, {MIN_R2} is needed): its shares would be noise"
        )
        return ParameterImportance(method=FANOVA, quality=quality, reason=reason)
    forest = grow(
        grid, sample.values, bagged(np.arange(len(sample.values)), TREES, seeded(seed, 2))
    )
    main = main_effects(forest, grid.sizes)
    if not main.any():
        return ParameterImportance(method=FANOVA, quality=quality, reason=NO_MAIN_EFFECTS)
    resampled = [
        grow(grid, sample.values, bagged(rows, TREES_PER_RESAMPLE, generator))
        for rows, generator in resamples(len(sample.values), RESAMPLES[FANOVA], seed)
    ]
    effects = [
        summing_to_one(main_effects(forest_of_resample, grid.sizes))
        for forest_of_resample in resampled
    ]
    return ParameterImportance(
        method=FANOVA,
        shares=_share_intervals(sample, summing_to_one(main), effects, seed),
        pairs=_largest_pairs(sample.space.keys, main, pair_effects(forest, grid.sizes)),
        quality=quality,
        note=_fanova_note(trials, sample),
    )


def _subsample(trials: _TrialTable, seed: int) -> _TrialTable:
    """At most `MAX_FOREST_TRIALS` trials, drawn at random, so that forests take seconds."""
    if len(trials.values) <= MAX_FOREST_TRIALS:
        return trials
    # Sorted, so that the sample stays in the canonical order of the table.
    rows = np.sort(seeded(seed, 0).choice(len(trials.values), MAX_FOREST_TRIALS, replace=False))
    return replace(trials, points=trials.points[rows], values=trials.values[rows])


def _cell_count(domain: Domain) -> int:
    match domain:
        case Choice():
            return len(domain.values)
        case Integer() if not domain.log:
            return min(domain.high - domain.low + 1, CELLS_PER_RANGE)
        case _:
            return CELLS_PER_RANGE


def _largest_pairs(
    keys: tuple[str, ...], main: Numbers, pairs: Mapping[tuple[int, int], float]
) -> dict[tuple[str, str], float]:
    total = float(main.sum()) + math.fsum(pairs.values())
    # Ties are ordered by the parameters, so that the report does not depend on dictionary order.
    largest = sorted(pairs.items(), key=lambda item: (-item[1], item[0]))[:MAX_PAIRS]
    return {(keys[a], keys[b]): effect / total for (a, b), effect in largest}


def _fanova_note(trials: _TrialTable, sample: _TrialTable) -> str:
    count = f"{len(sample.values):,} of " if sample is not trials else ""
    drawn = ", drawn at random" if sample is not trials else ""
    few = (
        f" Forests are more reliable with {RECOMMENDED_TRIALS} trials or more."
        if len(sample.values) < RECOMMENDED_TRIALS
        else ""
    )
    return f"From {count}{trials.description}{drawn}.{few}"
