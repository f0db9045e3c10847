"""How networks grow between generations."""

from itertools import pairwise

import numpy as np
import pytest

from rlexp.tuners.pbt import NetworkGrowth, is_network

GROWTH = NetworkGrowth(
    probability=1.0, new_layer=0.2, new_units=(16, 32, 64), most_layers=3, most_units=500
)


def test_a_network_grows_by_a_layer_or_by_units() -> None:
    """One mutation adds a layer as wide as the last one, or 16, 32 or 64 units to one layer."""
    random = np.random.default_rng(0)
    grown = [GROWTH.grown([32, 64], random) for _ in range(2000)]
    layers = [sizes for sizes in grown if len(sizes) == 3]
    assert layers == [[32, 64, 64]] * len(layers)
    assert pytest.approx(0.2, abs=0.03) == len(layers) / 2000
    units = {tuple(np.subtract(sizes, [32, 64])) for sizes in grown if len(sizes) == 2}
    assert {(a, 0) for a in (16, 32, 64)} | {(0, a) for a in (16, 32, 64)} == units


def test_a_network_never_shrinks_and_keeps_its_bounds() -> None:
    """After many mutations it has at most three layers of at most 500 units, and no layer got smaller."""
    random, sizes = np.random.default_rng(1), [16]
    history = [sizes]
    for _ in range(400):
        sizes = GROWTH.grown(sizes, random)
        history.append(sizes)
    for before, after in pairwise(history):
        assert all(a <= b for a, b in zip(before, after, strict=False))
        assert len(before) <= len(after)
    assert len(sizes) == 3
    assert all(484 < size <= 500 for size in sizes)


@pytest.mark.parametrize("sizes", [[], [500, 500, 500], [8]])
def test_every_mutation_makes_as_many_draws(sizes: list[int]) -> None:
    """What is drawn afterwards does not depend on the network, so that other values stay the same."""
    draws = []
    for layers in (sizes, [64, 64]):
        random = np.random.default_rng(2)
        GROWTH.grown(layers, random)
        draws.append(random.random())
    if len(sizes) == 2:
        assert draws[0] == draws[1]
    random = np.random.default_rng(2)
    assert [] == GROWTH.grown([], random)
    assert [500, 500, 500] == GROWTH.grown([500, 500, 500], random)


def test_only_layers_of_networks_grow() -> None:
    """A setting of another key, and a network that the library chooses, are no networks to grow."""
    assert is_network("agent.network", [8])
    assert is_network("agent.critic", (8, 8))
    assert not is_network("agent.activation", "tanh")
    assert not is_network("agent.network", None)
