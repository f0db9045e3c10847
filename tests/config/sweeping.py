"""Helpers that compose sweeps in tests."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rlexp.config.sweep import SweepRequest, compose_sweep
from rlexp.config.sweep_checks import check_sweep
from rlexp.errors import ConfigError
from rlexp.protocol.space import Domain

DEFINITION = """\
# @package _global_
# A definition that tests change.
defaults:
  - override /algorithm: dqn
  - override /tuner: random

budget: {steps: 2_000, evaluation_every: 500}

sweep:
  trials: 20
  space:
    algorithm:
      learning_rate: tag(log, interval(1e-5, 1e-1))
      gamma:
        values: tag(flipped_log, interval(0.9, 0.999))
        when: {switch.gamma: true}
    agent.network: [[64], [64, 64], null]
    switch.gamma: [true, false]
"""


def domains(request: SweepRequest) -> dict[str, Domain]:
    """The domain of every parameter."""
    return {p.key: p.domain for p in request.space.parameters}


def conditions(request: SweepRequest) -> dict[str, Mapping[str, Any]]:
    """The conditions of every parameter with conditions."""
    return {p.key: dict(p.when) for p in request.space.parameters if p.when}


def refusal(folder: Path, name: str | None, *overrides: str) -> str:
    """The error about an invalid sweep, which must be one line."""
    with pytest.raises(ConfigError) as error_info:
        check_sweep(compose_sweep(name, overrides, folder))
    assert "\n" not in str(error_info.value)
    return str(error_info.value)
