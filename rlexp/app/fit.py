"""Whether agent, algorithm and environment fit one another, asked before anything starts."""

import sys
from collections.abc import Iterable
from typing import Any

from rlexp.app.study import Study
from rlexp.config.validate import build
from rlexp.errors import ConfigError
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.spec import canonical, short_name


def check_fit(configurations: Iterable[Configuration], study: Study) -> None:
    """Make each environment once, look at its spaces, and close it.

    Raises:
        ConfigError: An environment does not exist, or an algorithm cannot learn on it.
    """
    if str(study.folder) not in sys.path:
        sys.path.append(str(study.folder))
    spaces: dict[str, tuple[str, str]] = {}
    for configuration in configurations:
        key = canonical(configuration.environment)
        if key not in spaces:
            spaces[key] = _spaces(configuration, study)
        _check(configuration, *spaces[key], study)


def _spaces(configuration: Configuration, study: Study) -> tuple[str, str]:
    plain = {**configuration.environment, "reference": configuration.reference}
    environment = build(plain, "environment", study.allowed)
    made = environment.make()
    try:
        return type(made.observation_space).__name__, type(made.action_space).__name__
    finally:
        made.close()


def _check(configuration: Configuration, observation: str, action: str, study: Study) -> None:
    agent: Any = build(configuration.agent, "agent", study.allowed)
    algorithm: Any = build(configuration.algorithm, "algorithm", study.allowed)
    name, kind = type(algorithm).__name__, short_name(configuration.agent)
    if action not in algorithm.actions:
        raise ConfigError(
            f"{name} cannot act on {configuration.task}: its actions are {action}, "
            f"{name} takes {' or '.join(algorithm.actions)}; choose another algorithm",
        )
    if agent.policy not in algorithm.policies:
        raise ConfigError(
            f"agent={kind} gives a {agent.policy}, which {name} does not have "
            f"(it has: {', '.join(algorithm.policies)}); choose another agent",
        )
    if observation not in agent.observations:
        raise ConfigError(
            f"agent={kind} cannot read {configuration.task}: its observations are {observation}, "
            f"the agent reads {' or '.join(agent.observations)}; choose another agent",
        )
