"""Properties of every agent, tested on every yaml of `conf/agent`."""

from dataclasses import fields
from typing import Any

import pytest
import torch
from members import member, names, settings, target
from pydantic import TypeAdapter, ValidationError
from spaces import tiny_environments
from stable_baselines3.common.base_class import BaseAlgorithm

from rlexp.agents.networks import activation_class
from rlexp.errors import ConfigError

AGENTS = names("agent")
OF_THE_LIBRARY = [name for name in AGENTS if name != "gbrl"]
"""Agents whose policies are classes of the library; `tests/trees` builds the other."""
LAYERED = [name for name in OF_THE_LIBRARY if name != "linear"]
ALGORITHMS = {name: member("algorithm", name) for name in names("algorithm") if name != "external"}
PAIRS = [
    (agent, algorithm)
    for agent in OF_THE_LIBRARY
    for algorithm in ALGORITHMS
    if member("agent", agent).policy in ALGORITHMS[algorithm].policies
]
ONE_NETWORK = ("ars", "compiled_dqn", "dqn", "qrdqn")


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def build_learner(agent: Any, name: str, observation: str | None = None) -> BaseAlgorithm:
    """A learner of the agent on a tiny environment with observations that it accepts."""
    algorithm = ALGORITHMS[name]
    memory = {"buffer_size": 100} if hasattr(algorithm, "buffer_size") else {}
    environment = tiny_environments(observation or agent.observations[0], algorithm.actions[0])
    learner: BaseAlgorithm = member("algorithm", name, **memory).build(
        agent.policy, agent.arguments(), environment, seed=1, device="cpu"
    )
    return learner


def widths(learner: BaseAlgorithm) -> set[int]:
    """The output widths of all linear layers."""
    return {
        layer.out_features
        for layer in learner.policy.modules()
        if isinstance(layer, torch.nn.Linear)
    }


@pytest.mark.parametrize("name", AGENTS)
def test_yaml_and_class_have_the_same_fields_in_the_same_order(name: str) -> None:
    """The yaml and the class have the same fields in the same order."""
    values = settings("agent", name)
    kind = target(values.pop("_target_"))
    assert [field.name for field in fields(kind)] == list(values)


@pytest.mark.parametrize("name", OF_THE_LIBRARY)
def test_the_default_is_the_library_default(name: str) -> None:
    """An agent without settings passes no arguments to the library."""
    assert member("agent", name).arguments() == {}


def test_every_policy_of_every_algorithm_has_an_agent() -> None:
    """Every policy that an algorithm accepts has an agent."""
    policies = {policy for algorithm in ALGORITHMS.values() for policy in algorithm.policies}
    lstms = {member("agent", "lstm", input=text).policy for text in ("mlp", "cnn", "multi_input")}
    assert policies == {member("agent", name).policy for name in AGENTS} | lstms


@pytest.mark.parametrize(("name", "algorithm"), PAIRS)
def test_default_agent_builds_with_every_algorithm_that_has_its_policy(
    name: str, algorithm: str
) -> None:
    """Each agent builds with each algorithm that accepts its policy."""
    assert build_learner(member("agent", name), algorithm).policy is not None


@pytest.mark.parametrize(
    ("name", "observation"),
    [
        (name, observation)
        for name in ("mlp", "linear", "multi_input")
        for observation in member("agent", name).observations
    ],
)
def test_every_declared_observation_is_read(name: str, observation: str) -> None:
    """An agent builds and acts on each kind of observation that it declares."""
    learner = build_learner(
        member("agent", name), "ars" if name == "linear" else "ppo", observation
    )
    assert learner.env is not None
    action, _ = learner.predict(learner.env.reset())  # type: ignore[arg-type]
    assert len(action) == 1


@pytest.mark.parametrize(
    ("kind", "observation"), [("mlp", "Box"), ("cnn", "Image"), ("multi_input", "Dict")]
)
def test_lstm_works_with_every_input(kind: str, observation: str) -> None:
    """The LSTM works after each feature extractor and has the size that is set."""
    agent = member("agent", "lstm", input=kind, lstm_hidden_size=7, n_lstm_layers=2)
    learner: Any = build_learner(agent, "recurrent_ppo", observation)
    assert (learner.policy.lstm_actor.hidden_size, learner.policy.lstm_actor.num_layers) == (7, 2)


@pytest.mark.parametrize(("name", "algorithm"), [pair for pair in PAIRS if pair[0] != "linear"])
def test_one_network_shape_fits_every_algorithm(name: str, algorithm: str) -> None:
    """`network` sets the hidden layers of every algorithm, whatever their names in the library."""
    learner = build_learner(member("agent", name, network=[13, 11], activation="elu"), algorithm)
    assert {13, 11} <= widths(learner)
    assert any(isinstance(layer, torch.nn.ELU) for layer in learner.policy.modules())


@pytest.mark.parametrize(("name", "algorithm"), [pair for pair in PAIRS if pair[0] != "linear"])
def test_actor_and_critic_have_separate_layers(name: str, algorithm: str) -> None:
    """`actor` and `critic` reach both networks; a single network refuses them."""
    agent = member("agent", name, actor=[13], critic=[11])
    if algorithm in ONE_NETWORK:
        with pytest.raises(ConfigError, match=r"has a single network.*set agent\.network"):
            build_learner(agent, algorithm)
    else:
        assert {13, 11} <= widths(build_learner(agent, algorithm))


@pytest.mark.parametrize(("name", "algorithm"), [pair for pair in PAIRS if pair[0] != "linear"])
def test_ortho_init_is_taken_or_refused_by_name(name: str, algorithm: str) -> None:
    """A policy uses `ortho_init`, or refuses it with a one-line error."""
    agent = member("agent", name, ortho_init=False)
    if algorithm in ("a2c", "compiled_ppo", "maskable_ppo", "ppo", "recurrent_ppo", "trpo"):
        assert not getattr(build_learner(agent, algorithm).policy, "ortho_init", False)
    else:
        with pytest.raises(
            ConfigError,
            match=r"does not take 'ortho_init'|ortho_init is not part of compiled training",
        ) as error_info:
            build_learner(agent, algorithm)
        assert "\n" not in str(error_info.value)


@pytest.mark.parametrize("activation", ["tanh", "relu", "elu", "leaky_relu", "silu", "gelu"])
def test_activations_are_modules(activation: str) -> None:
    """Every activation names a module without parameters."""
    kind = activation_class(activation)  # type: ignore[arg-type]
    assert (activation.replace("_", ""), []) == (kind.__name__.lower(), list(kind().parameters()))


def test_image_features_have_the_size_that_is_set() -> None:
    """The convolutions of the image and dictionary agents take their width from the agent."""
    cnn = build_learner(member("agent", "cnn", features_dim=17), "ppo")
    assert 17 in widths(cnn)
    arguments = member("agent", "multi_input", cnn_output_dim=19).arguments()
    assert arguments == {"features_extractor_kwargs": {"cnn_output_dim": 19}}


def test_convolutions_refuse_what_is_no_image() -> None:
    """The image agent refuses vector observations with a one-line error."""
    with pytest.raises(
        ConfigError, match=r"refuses this configuration: .*NatureCNN"
    ) as error_info:
        build_learner(member("agent", "cnn"), "ppo", "Box")
    assert "\n" not in str(error_info.value)


def test_linear_options_reach_the_policy() -> None:
    """A linear policy has a bias if its agent sets `with_bias`."""
    agent = member("agent", "linear", with_bias=True)
    assert any(
        name.endswith("bias") for name, _ in build_learner(agent, "ars").policy.named_parameters()
    )


def test_policy_kwargs_reach_the_policy() -> None:
    """`policy_kwargs` passes arguments that only one policy of the library accepts."""
    agent = member("agent", "mlp", policy_kwargs={"n_critics": 3})
    learner: Any = build_learner(agent, "sac")
    assert len(learner.critic.q_networks) == 3


@pytest.mark.parametrize("name", LAYERED)
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"network": [8], "actor": [8]}, "agent.network shapes both actor and critic"),
        ({"actor": [8]}, "agent.critic is not set"),
        ({"critic": [8]}, "agent.actor is not set"),
    ],
)
def test_contradictory_layers_are_refused(
    name: str, changes: dict[str, Any], message: str
) -> None:
    """Layers are set by `network`, or by both `actor` and `critic`."""
    with pytest.raises(ConfigError, match=message):
        member("agent", name, **changes)


@pytest.mark.parametrize("name", LAYERED)
def test_wrong_types_and_unknown_keys_are_refused(name: str) -> None:
    """Validation finds wrong layers, an unknown activation and a misspelt key together."""
    values = settings("agent", name, network=["8", 0], activation="swish", ortho="yes")
    kind = target(values.pop("_target_"))
    with pytest.raises(ValidationError) as error_info:
        TypeAdapter(kind).validate_python(values, strict=False, extra="forbid")
    places = {error["loc"][0] for error in error_info.value.errors()}
    assert {"network", "activation", "ortho"} == places
