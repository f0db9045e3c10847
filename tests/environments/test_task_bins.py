"""The shift of training: the divergence between what was played and its target."""

import numpy as np
import pytest

from rlexp.components.context_distributions import Range, bins_of
from rlexp.components.contexts import ContextParameter, Contexts
from rlexp.components.levels import Levels
from rlexp.environments.task_bins import TaskBins


def test_shift_by_hand() -> None:
    """Equal distributions have no shift, distributions without overlap one bit, others between."""
    bins = TaskBins(np.array([0.0, 1.0, 2.0]), np.array([0.5, 0.5]))
    assert 0.0 == bins.shift(np.array([7, 7]))
    # Half of 1 · log2(1 / 0.75) and of 0.5 · log2(0.5 / 0.75) + 0.5 · log2(0.5 / 0.25).
    expected = (np.log2(4 / 3) + 0.5 * np.log2(2 / 3) + 0.5) / 2
    assert expected == pytest.approx(bins.shift(np.array([3, 0])))
    apart = TaskBins(np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0]))
    assert 1.0 == apart.shift(np.array([5, 0]))


def test_bins_hold_their_values() -> None:
    """A value belongs to the bin between its edges; one outside belongs to the nearest."""
    bins = TaskBins(np.array([0.0, 1.0, 2.0]), np.array([0.5, 0.5]))
    assert [0, 0, 0, 1, 1, 1] == [bins.position(v) for v in (-5.0, 0.0, 0.9, 1.0, 2.0, 9.0)]


def test_ranges_share_bins() -> None:
    """Twenty bins reach over both ranges, and those outside of the test range have no share."""
    bins = bins_of(Range(low=0.0, high=1.0), Range(low=0.5, high=2.0))
    assert (21, 0.0, 2.0) == (len(bins.edges), bins.edges[0], bins.edges[-1])
    assert [0.0] * 5 + [1 / 15] * 15 == pytest.approx(bins.target.tolist())


def test_logarithmic_ranges_have_equal_bins() -> None:
    """On the logarithmic scale of the target, its bins are as likely."""
    bins = bins_of(1.0, Range(low=0.1, high=10.0, scale="log_uniform"))
    assert [0.05] * 20 == pytest.approx(bins.target.tolist())


def test_values_have_a_bin_each() -> None:
    """Each value of two lists has a bin, with its share in the target."""
    bins = bins_of((0.1, 0.5), (0.5, 0.8))
    assert [0.0, 0.5, 0.5] == bins.target.tolist()
    assert [0, 1, 2] == [bins.position(value) for value in (0.1, 0.5, 0.8)]
    assert [1.0] == bins_of(2.0, 2.0).target.tolist()


def test_components_name_their_bins() -> None:
    """Contexts have bins for each parameter, and levels one for each level of training."""
    length = ContextParameter(field="length", training=0.5, test=Range(low=0.2, high=1.0))
    contexts = Contexts(
        parameters={"length": length}, evaluation="grid", points=5, seed=0, visible=False
    )
    assert ["context/length"] == list(contexts.task_bins())
    (bins,) = Levels(training=3, test=2, start=7).task_bins().values()
    assert [0, 1, 2] == [bins.position(level) for level in (7.0, 8.0, 9.0)]
    assert {} == Levels(training=200_000, test=2, start=7).task_bins()
