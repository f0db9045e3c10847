"""Configurations are translated into hyperparameters of rl-baselines3-zoo, or refused."""

from typing import Any

import pytest

from rlexp.exchange.exporters.zoo_settings import expression, zoo_algorithm, zoo_entry
from rlexp.exchange.importers.zoo_settings import parse_literal, translate_zoo_settings

VECTOR = {
    "count": 4,
    "kind": "dummy",
    "frame_stack": 2,
    "normalise_observations": True,
    "normalise_rewards": False,
    "clip_observations": 5.0,
    "clip_rewards": 10.0,
}


def part(plug_in: str, /, **settings: Any) -> dict[str, Any]:
    """A recorded plug-in."""
    return {"plug_in": {"group": "g", "name": plug_in, "version": 1}, "_target_": "t", **settings}


AGENT = part("mlp", network=None, actor=None, critic=None, activation=None, policy_kwargs={})
PPO = part("ppo", learning_rate=1e-4, gamma=0.9, clip_range_vf=None)
CARTPOLE = part(
    "gymnasium", id="CartPole-v1", name=None, imports=[], arguments={}, wrappers=[], vector=VECTOR
)


def entry(**changed: Any) -> dict[str, Any]:
    """The entry of a configuration with changed parts, which must be translated."""
    parts = {"agent": AGENT, "algorithm": PPO, "environment": CARTPOLE, "steps": 1000, **changed}
    translated, troubles = zoo_entry(**parts)
    assert not troubles
    return translated


def trouble(**changed: Any) -> str:
    """The only reason why a configuration is refused."""
    parts = {"agent": AGENT, "algorithm": PPO, "environment": CARTPOLE, "steps": 1000, **changed}
    (reason,) = zoo_entry(**parts)[1].values()
    return reason


def imported(translated: dict[str, Any], *available: str) -> dict[str, Any]:
    """What the import makes of an entry, without the budget."""
    settings, troubles = translate_zoo_settings(translated, available)
    assert not troubles
    return {key: value for key, value in settings.items() if not key.startswith("budget.")}


def test_the_import_is_the_inverse() -> None:
    """An exported entry is imported as the settings that it was made from."""
    agent = {**AGENT, "actor": [64], "critic": [32], "activation": "tanh", "ortho_init": False}
    schedule = {"shape": "linear", "initial": 3e-4, "final": 0.0, "until": 1.0}
    environment = {
        **CARTPOLE,
        "arguments": {"render_fps": 3, "name": "a"},
        "wrappers": [
            {"name": "TimeAwareObservation", "arguments": {}},
            {
                "name": "stable_baselines3.common.atari_wrappers:MaxAndSkipEnv",
                "arguments": {"skip": 2},
            },
        ],
    }
    exported = entry(
        agent={**agent, "policy_kwargs": {"log_std_init": -2.0}},
        algorithm={**PPO, "learning_rate": schedule},
        environment=environment,
        explicit=["clip_range_vf"],
    )
    assert {
        "algorithm.learning_rate": {"shape": "linear", "initial": 3e-4},
        "algorithm.gamma": 0.9,
        "algorithm.clip_range_vf": None,
        "agent.actor": [64],
        "agent.critic": [32],
        "agent.activation": "tanh",
        "agent.ortho_init": False,
        "agent.policy_kwargs.log_std_init": -2.0,
        "environment.arguments.render_fps": 3,
        "environment.arguments.name": "a",
        "environment.wrappers": environment["wrappers"],
        "environment.vector.count": 4,
        "environment.vector.frame_stack": 2,
        "environment.vector.normalise_observations": True,
        "environment.vector.normalise_rewards": False,
        "environment.vector.clip_observations": 5.0,
        "environment.vector.clip_rewards": 10.0,
    } == imported(exported, "learning_rate", "gamma", "clip_range_vf")


def test_noise_and_buffer_are_the_inverse_of_the_import() -> None:
    """Noise becomes two keys, and arguments of the buffer become an expression."""
    algorithm = part(
        "ddpg",
        buffer_size=100,
        action_noise={"kind": "ornstein_uhlenbeck", "sigma": 0.5},
        replay_buffer_kwargs={"handle_timeout_termination": False},
        train_freq={"unit": "step"},
    )
    exported = entry(algorithm=algorithm, agent={**AGENT, "actor": [8], "critic": [9]})
    assert ("ornstein-uhlenbeck", 0.5) == (exported["noise_type"], exported["noise_std"])
    assert "qf=[9]" in exported["policy_kwargs"]
    settings = imported(exported, "buffer_size", "train_freq", "replay_buffer_kwargs")
    for key in ("action_noise", "replay_buffer_kwargs", "buffer_size"):
        assert algorithm[key] == settings[f"algorithm.{key}"]


@pytest.mark.parametrize(
    ("agent", "policy"),
    [
        (AGENT, "MlpPolicy"),
        (part("cnn"), "CnnPolicy"),
        (part("linear"), "LinearPolicy"),
        (part("lstm", input="cnn"), "CnnLstmPolicy"),
        (part("lstm", input="mlp"), "MlpLstmPolicy"),
    ],
)
def test_every_agent_has_its_policy(agent: dict[str, Any], policy: str) -> None:
    """Agents of rlexp are policies of the zoo."""
    assert policy == entry(agent=agent)["policy"]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"environment": {**CARTPOLE, "components": {"a": {}}}}, "no components"),
        ({"environment": {**CARTPOLE, "max_episode_steps": 9}}, "length of episodes"),
        ({"environment": part("external", name="mine")}, "no Gymnasium id"),
        ({"environment": {**CARTPOLE, "weights": [1]}}, "no such setting"),
        ({"environment": {**CARTPOLE, "vector": {**VECTOR, "kind": "subprocess"}}}, "--vec-env"),
        ({"agent": {**AGENT, "actor": [8]}}, "actor and critic"),
        ({"agent": part("mine")}, "no policy for the agent mine"),
        ({"algorithm": part("external", command="x")}, "training script"),
        ({"algorithm": {**PPO, "start_from": "0" * 64}}, "--trained-agent"),
        (
            {
                "algorithm": {
                    **PPO,
                    "learning_rate": {"shape": "linear", "initial": 1, "final": 0.5},
                }
            },
            "ends at 0",
        ),
    ],
)
def test_what_the_zoo_cannot_express_is_refused(changed: dict[str, Any], reason: str) -> None:
    """A setting without an equivalent is refused and never left out."""
    assert reason in trouble(**changed)


def test_expressions_are_read_back() -> None:
    """An expression holds the same values, and its texts are quoted."""
    value = {"a": [1, 2.5, None, True], "b": {"c": "it's"}}
    assert value == parse_literal(expression(value))


def test_the_zoos_names_of_algorithms() -> None:
    """Algorithms with another name in the zoo get that name."""
    assert ("ppo_lstm", "sac") == (
        zoo_algorithm(part("recurrent_ppo")),
        zoo_algorithm(part("sac")),
    )
