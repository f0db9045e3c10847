"""Differential evolution in the unit cube, rand/1/bin (Storn and Price 1997), as DEHB uses it."""

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]

NEEDED = 3
"""Members that rand/1 draws."""


def rand1(first: Points, second: Points, third: Points, factor: float) -> Points:
    """The mutant first + factor · (second − third), which may lie outside the unit cube.

    Args:
        first: Point of shape (d,), as the others.
        second: Where the difference ends.
        third: Where the difference begins.
        factor: The mutation factor F.
    """
    return first + factor * (second - third)


def mutate(pool: Points, parent: Points, factor: float, random: np.random.Generator) -> Points:
    """A mutant of three different members of the pool, none of them the parent.

    Args:
        pool: Points to draw from, of shape (n, d), n ≥ 1; filled up with uniform ones where it
            is too small without the parent.
        parent: Of shape (d,).
        factor: The mutation factor F.
        random: Where the draws come from.

    Returns:
        A point of shape (d,), perhaps outside the unit cube.
    """
    others = _without(pool, parent) if len(pool) > 1 else pool
    if (lacking := NEEDED - len(others)) > 0:
        others = np.concatenate((others, random.uniform(size=(lacking, len(parent)))))
    first, second, third = others[random.choice(len(others), NEEDED, replace=False)]
    return rand1(first, second, third, factor)


def cross(
    parent: Points, mutant: Points, probability: float, random: np.random.Generator
) -> Points:
    """Binomial crossover: each gene is the mutant's with a probability, at least one of them.

    Args:
        parent: Of shape (d,).
        mutant: Of shape (d,).
        probability: The crossover rate CR.
        random: Where the draws come from.
    """
    taken = random.random(len(parent)) < probability
    if not taken.any():
        taken[random.integers(0, len(parent))] = True
    return np.where(taken, mutant, parent)


def redraw_outside(point: Points, random: np.random.Generator) -> Points:
    """The point of shape (d,) with each gene outside [0, 1] drawn anew, uniformly."""
    outside = (point > 1) | (point < 0)
    inside = point.copy()
    inside[outside] = random.uniform(size=int(outside.sum()))
    return inside


def child(
    parent: Points,
    pool: Points,
    everyone: Points,
    *,
    factor: float,
    probability: float,
    random: np.random.Generator,
) -> Points:
    """A child of a parent in the unit cube (Awad, Mallik and Hutter 2021, DEHB).

    Args:
        parent: Of shape (d,).
        pool: Whom the mutant is made of, of shape (n, d); with fewer than three, mutants of
            everyone are added.
        everyone: The members of all subpopulations, of shape (m, d), m ≥ 1.
        factor: The mutation factor F.
        probability: The crossover rate CR.
        random: Where the draws come from.
    """
    if len(pool) < NEEDED:
        count = NEEDED - len(pool) + 1
        added = [mutate(everyone, parent, factor, random) for _ in range(count)]
        pool = np.concatenate((pool, added))
    mutant = mutate(pool, parent, factor, random)
    return redraw_outside(cross(parent, mutant, probability, random), random)


def _without(pool: Points, parent: Points) -> Points:
    same = np.flatnonzero((pool == parent).all(axis=1))
    return np.delete(pool, same[0], axis=0) if len(same) else pool
