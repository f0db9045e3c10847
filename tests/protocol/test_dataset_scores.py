"""D4RL's normalised score, and the anchors that the dataset of a run declares."""

from dataclasses import replace
from typing import Any

import pytest
from samples import configuration, part

from rlexp.protocol.experiment import Configuration
from rlexp.protocol.measures import d4rl_score, dataset_anchors


def with_dataset(score: str = "final", **settings: Any) -> Configuration:
    """A configuration with a dataset."""
    dataset = part("dataset", "minari", "rlexp.datasets.minari.Minari", digest="a1", **settings)
    return replace(configuration(score=score), dataset=dataset)


def test_the_score_of_the_paper_by_hand() -> None:
    """A random policy has 0, an expert 100, and scores outside are not cut (Fu et al. 2020)."""
    # Hopper in D4RL's code: random -20.272305, expert 3234.3.
    anchors = (-20.272305, 3234.3)
    assert [0.0, 100.0] == [d4rl_score(score, anchors) for score in anchors]
    assert 50.0 == pytest.approx(d4rl_score(1607.0138475, anchors))
    assert 110.0 == pytest.approx(d4rl_score(3559.7572305, anchors))


@pytest.mark.parametrize(
    ("score", "settings", "expected"),
    [
        ("final", {"random_score": -5.0, "expert_score": 10}, (-5.0, 10.0)),
        ("auc", {"random_score": -5.0, "expert_score": 10.0}, (-5.0, 10.0)),
        ("success", {"random_score": -5.0, "expert_score": 10.0}, None),
        ("final", {"random_score": -5.0}, None),
        ("final", {"random_score": 3.0, "expert_score": 3.0}, None),
        ("final", {}, None),
    ],
)
def test_anchors_need_two_returns(
    score: str, settings: dict[str, Any], expected: tuple[float, float] | None
) -> None:
    """Anchors are two different returns, and say nothing about a measure."""
    assert expected == with_dataset(score, **settings).dataset_anchors
    assert dataset_anchors(score, None) is None
    assert configuration().dataset_anchors is None
