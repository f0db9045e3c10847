"""Measures as a configuration declares them, and the quantity that a score is the mean of.

A measure is a number that an environment reports for each episode besides the return (`success`,
`cost`). `budget.score` names a rule about returns, or a measure.
"""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from rlexp.errors import ConfigError

RETURN = "return"
"""The quantity of the scores `final`, `auc` and `last_window`."""
SCORE_RULES = ("final", "auc", "last_window")
"""Scores about the return; any other score names a measure."""
CURVE_RULES = ("auc", "last_window")
"""Scores that are computed from the evaluations during training."""
CONTEXT = "context/"
"""Prefix of the measures that record the context of an episode; none of them is a result."""
CATASTROPHE = "catastrophe"
"""The measure of `component=catastrophe`: 1 for an episode that was one, else 0."""
TRAINING_SHIFT = "training_shift"
"""The measure of a run that says how far the contexts or levels of its training are from the target."""
Direction = Literal["maximise", "minimise"]
ENDS = ("minimum", "maximum")
"""Keys of the smallest and the largest possible value."""
KNOWN_VALUES = ("random", "threshold", *ENDS, "source")
"""Keys of the known values of a quantity, in `environment.reference` and of a measure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredMeasure:
    """What is known about a measure before a run; never part of the identity of a run.

    Attributes:
        direction: Whether higher or lower values are better.
        minimum: The smallest possible value.
        maximum: The largest possible value.
        random: The mean of a random policy.
        threshold: The mean from which the task counts as solved.
        source: Where these numbers come from.
    """

    direction: Direction = "maximise"
    minimum: float | None = None
    maximum: float | None = None
    random: float | None = None
    threshold: float | None = None
    source: str | None = None

    def __post_init__(self) -> None:
        """Refuse unknown directions, numbers that are not finite, and bounds in the wrong order."""
        if self.direction not in get_args(Direction):
            raise ConfigError(
                f"environment.measures: direction={self.direction!r} must be "
                f"{' or '.join(get_args(Direction))}"
            )
        for key in ("minimum", "maximum", "random", "threshold"):
            value = getattr(self, key)
            # Also false for NaN, and for integers that no float can hold.
            if value is not None and not abs(value) <= sys.float_info.max:
                raise ConfigError(
                    f"environment.measures: {key}={value} must be a finite number or null"
                )
        least, greatest = self.minimum, self.maximum
        if least is not None and greatest is not None and not least < greatest:
            raise ConfigError(
                f"environment.measures: minimum={least:g} must be less than maximum={greatest:g}"
            )

    def plain(self) -> dict[str, Any]:
        """The declaration as JSON values, without the unknown numbers."""
        return {key: value for key, value in asdict(self).items() if value is not None}


def quantity_of(score: str) -> str:
    """The quantity that a score is made of: `return`, or the name of a measure."""
    return RETURN if score in SCORE_RULES else score


def known_values(
    score: str, reference: Mapping[str, Any], measures: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The known values of a score, in its units.

    Args:
        score: The score of the budget.
        reference: The known returns of the task (`environment.reference`).
        measures: The declared measures by name, as `DeclaredMeasure.plain` gives them.
    """
    if score in SCORE_RULES:
        return reference
    declared = measures.get(score, {})
    return {key: declared[key] for key in KNOWN_VALUES if key in declared}


def known_anchors(
    declared: Mapping[str, Any], *, lower_is_better: bool
) -> tuple[float, float, str] | None:
    """The scores that become 0 and 1 when a task is normalised, and the key of the second one.

    They are the score of a random policy, and the threshold or else the best possible score. None
    where a task does not declare two different ones, or a random policy is the better one.

    Args:
        declared: The known values of the score.
        lower_is_better: Whether lower scores are better; the first anchor is then the greater one.
    """
    end = "minimum" if lower_is_better else "maximum"
    key = "threshold" if declared.get("threshold") is not None else end
    low, high = declared.get("random"), declared.get(key)
    # A random policy that is as good as the threshold would turn the scale upside down.
    if low is None or high is None or high == low or (high < low) is not lower_is_better:
        return None
    return float(low), float(high), key


def dataset_anchors(score: str, dataset: Mapping[str, Any] | None) -> tuple[float, float] | None:
    """The returns of a random policy and of an expert, as the dataset of a run declares them.

    None where it declares none, for a score that is no return, and where the expert is not the better
    one.

    Args:
        score: The score of the budget.
        dataset: The settings of the dataset (`random_score`, `expert_score`); None without one.
    """
    declared = dataset or {}
    random, expert = declared.get("random_score"), declared.get("expert_score")
    if score not in SCORE_RULES or random is None or expert is None or not random < expert:
        return None
    return float(random), float(expert)


def d4rl_score(score: float, anchors: tuple[float, float]) -> float:
    """D4RL's normalised score: 0 for a random policy, and 100 for an expert.

    Fu et al. 2020, D4RL: Datasets for Deep Data-Driven Reinforcement Learning, arXiv:2004.07219,
    section 6: 100 (score − random) / (expert − random).

    Args:
        score: A return.
        anchors: The returns of a random policy and of an expert; see `dataset_anchors`.
    """
    random, expert = anchors
    return 100.0 * (score - random) / (expert - random)


def is_minimised(quantity: str, measures: Mapping[str, Any]) -> bool:
    """Whether lower values of a quantity are better: of a measure that is declared so."""
    declared: Mapping[str, Any] = measures.get(quantity, {})
    return quantity != RETURN and declared.get("direction") == "minimise"


def declaration_key(score: str) -> str:
    """The key of the configuration under which the known values of a score are declared."""
    return "environment.reference" if score in SCORE_RULES else f"environment.measures.{score}"


def results_among(names: Iterable[str]) -> list[str]:
    """The measures that are results, by name: all but those that record contexts."""
    return sorted(name for name in names if not name.startswith(CONTEXT))
