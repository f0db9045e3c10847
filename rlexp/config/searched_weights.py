"""A sweep over the weights of a vector reward: trials learn other weighted sums, and are compared by returns."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rlexp.config.overrides import format_override
from rlexp.config.sweep import SweepRequest
from rlexp.config.sweep_overrides import sort_overrides
from rlexp.errors import ConfigError
from rlexp.protocol.measures import SCORE_RULES
from rlexp.protocol.sweep import RECORDED_OBJECTIVES

WEIGHTS = "environment.weights"


def words_for_weights(request: SweepRequest, overrides: Sequence[str], folder: Path) -> list[str]:
    """The further words of a sweep that searches the weights of a vector reward.

    All trials get one name of the task, because the default name holds the weights. The score becomes the
    return of the first objective, because weighted sums with other weights cannot be compared.

    Args:
        request: The sweep, composed without these words.
        overrides: The overrides of the command.
        folder: The study's folder.

    Returns:
        No word for a sweep that searches no weights, or that sets both itself.

    Raises:
        ConfigError: An objective of the sweep depends on the weights.
    """
    if WEIGHTS not in request.space.keys:
        return []
    plan = request.plan
    environment, budget = request.plain["environment"], request.plain["budget"]
    depending = [name for name in plan.objectives if name in RECORDED_OBJECTIVES]
    if depending or len(plan.objectives) < 2:
        names = _returns(environment)
        raise ConfigError(
            f"{WEIGHTS} is searched, and sweep.objective={','.join(plan.objectives)} cannot compare trials "
            "with other weights: name the return of each objective, "
            f"'sweep.objective=[{','.join(names)}]'",
            key="sweep.objective",
        )
    words = []
    if environment.get("name") is None:
        words.append(format_override("environment.name", environment["id"]))
    if budget["score"] in SCORE_RULES:
        if "budget.score" in sort_overrides(overrides, folder).fixed:
            raise ConfigError(
                f"{WEIGHTS} is searched, and budget.score={budget['score']} depends on the weights: leave it "
                f"out, or write budget.score={plan.objectives[0]}",
                key="budget.score",
            )
        words.append(format_override("budget.score", plan.objectives[0]))
    return words


def _returns(environment: Mapping[str, Any]) -> list[str]:
    """The measures with the return of each objective."""
    names = environment.get("objectives")
    if names is None:
        names = range(len(environment.get("weights") or ()))
    return [f"return/{name}" for name in names]
