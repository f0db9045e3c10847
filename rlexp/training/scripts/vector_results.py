"""Evaluations with vectors in the results of a training script: returns of components, and fronts."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rlexp.protocol.vector_scores import (
    BEST,
    COMPONENT,
    HYPERVOLUME,
    POLICIES,
    REFERENCE_POINT,
    RETURN_OF,
    VectorScores,
)
from rlexp.text import join_names

MOST_POLICIES = 1_000
"""Policies of a front, at most: an exact hypervolume of more takes long."""
Columns = dict[str, list[float]]
"""Numbers of each episode, by name."""


def split_returns(returns: Any, declared: VectorScores, episodes: int) -> tuple[Any, Columns]:
    """The returns of the run, and those of every component as measures.

    Args:
        returns: The value of `returns`: numbers, or a list of numbers for each component.
        declared: What the environment declares.
        episodes: The number of episodes that the budget asks for.

    Raises:
        ValueError: The returns are not as declared; the message says why.
    """
    if declared.reference_point is not None:
        raise ValueError(
            f"environment.{REFERENCE_POINT} declares a front of policies: write front, not returns"
        )
    if not isinstance(returns, Mapping):
        if declared.return_of is not None:
            raise ValueError(
                f"environment.{RETURN_OF}={declared.return_of} names a component, and returns are a list: "
                f'write {{"{declared.return_of}": [numbers], …}}'
            )
        return returns, {}
    if declared.return_of not in returns:
        # The script decides the names, so that no plan can know them.
        names = join_names(returns) or "nothing"
        said = f" ({declared.return_of} is none of them)" if declared.return_of else ""
        raise ValueError(
            f"returns are those of {names}{said}: environment.{RETURN_OF}=NAME says which of them is "
            "the return of the run"
        )
    for name, column in returns.items():
        _check_column(column, f"returns.{name}", episodes)
    named = {f"{COMPONENT}{name}": column for name, column in returns.items()}
    return returns[declared.return_of], named


def front_measures(front: Any, declared: VectorScores, episodes: int) -> Columns:
    """The measures of a front of policies, the same for every episode.

    They are the hypervolume of the mean returns of the policies above the declared reference point, the
    number of policies that no other one dominates, and the best mean return in each objective.

    Args:
        front: A list of policies: for each objective, the returns of the episodes.
        declared: What the environment declares.
        episodes: The number of episodes that the budget asks each policy to play.

    Raises:
        ValueError: The front is not as declared; the message says why.
    """
    # NumPy is imported where a front is read.
    from rlexp.stats.pareto import front_of, hypervolume

    reference = declared.reference_point
    if reference is None:
        raise ValueError(
            f"a front needs a reference point: environment.{REFERENCE_POINT}='{{OBJECTIVE: NUMBER, …}}'"
        )
    # The order of the objectives must not change the last digit of the volume.
    objectives = sorted(reference)
    means = _means(front, objectives, episodes)
    volume = hypervolume(means, [float(reference[name]) for name in objectives])
    values = {HYPERVOLUME: volume, POLICIES: float(len(front_of(means)))}
    values |= {f"{BEST}{n}": max(m[k] for m in means) for k, n in enumerate(objectives)}
    return {name: [value] * episodes for name, value in values.items()}


def _means(front: Any, objectives: Sequence[str], episodes: int) -> list[list[float]]:
    """The mean returns of each policy, in the order of the objectives."""
    if not isinstance(front, list) or not 0 < len(front) <= MOST_POLICIES:
        raise ValueError(f"front must be a list of 1 to {MOST_POLICIES:,} policies")
    means = []
    for number, policy in enumerate(front):
        if not isinstance(policy, Mapping) or set(policy) != set(objectives):
            raise ValueError(
                f"policy {number} of the front must have returns of {join_names(objectives)}, the objectives "
                f"of environment.{REFERENCE_POINT}"
            )
        for name in objectives:
            _check_column(policy[name], f"policy {number} of the front: {name}", episodes)
        means.append([math.fsum(policy[name]) / episodes for name in objectives])
    return means


def _check_column(column: Any, what: str, episodes: int) -> None:
    """Refuse what is not one finite number for each episode."""
    is_valid = isinstance(column, list) and all(
        type(n) in {int, float} and math.isfinite(n) for n in column
    )
    if not is_valid or len(column) != episodes:
        raise ValueError(
            f"{what} must be a list of {episodes} finite numbers, one for each episode"
        )


def joined(first: Mapping[str, Any] | None, second: Columns) -> dict[str, Any] | None:
    """The measures of a line with those of its vectors; None where there are none.

    Raises:
        ValueError: A measure is there twice.
    """
    if twice := [name for name in second if name in (first or {})]:
        raise ValueError(
            f"measures.{twice[0]} is a component of the vector, too: leave it out there"
        )
    return {**(first or {}), **second} or None
