"""The agent with recurrent networks."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from rlexp.agents.networks import (
    Activation,
    Count,
    Layers,
    check_layers,
    drop_none,
    network_arguments,
)
from rlexp.protocol.identity import Identity
from rlexp.protocol.step_schedule import Stepped


@dataclass(frozen=True, slots=True, kw_only=True)
class LSTM:
    """Recurrent networks: a feature extractor, an LSTM, and fully connected layers.

    A field that is null keeps the default of the library.
    """

    identity: ClassVar = Identity("agent", "lstm")

    input: Literal["mlp", "cnn", "multi_input"]
    """Feature extractor: `mlp` for vectors, `cnn` for images, `multi_input` for dictionaries."""
    network: Stepped[Layers] | None
    """Hidden layers of both actor and critic, or of the only network."""
    actor: Stepped[Layers] | None
    """Hidden layers of the actor; set it together with `critic`, instead of `network`."""
    critic: Stepped[Layers] | None
    """Hidden layers of the critic."""
    activation: Stepped[Activation] | None
    """Activation function between layers."""
    ortho_init: bool | None
    """Whether initial weights are orthogonal (on-policy algorithms)."""
    lstm_hidden_size: Count | None
    """Number of units in each layer of the LSTM."""
    n_lstm_layers: Count | None
    """Number of layers of the LSTM."""
    shared_lstm: bool | None
    """Whether actor and critic share one LSTM; needs `enable_critic_lstm=false`."""
    enable_critic_lstm: bool | None
    """Whether the critic has a separate LSTM."""
    policy_kwargs: dict[str, Any]
    """Further arguments of the library's policy, such as `n_critics` or `log_std_init`."""

    def __post_init__(self) -> None:
        check_layers(self.network, self.actor, self.critic)

    @property
    def observations(self) -> tuple[str, ...]:
        """Names of the observation spaces that its feature extractor accepts."""
        vectors = ("Box", "Discrete", "MultiDiscrete", "MultiBinary")
        return {"mlp": vectors, "cnn": ("Image",)}.get(self.input, ("Dict",))

    @property
    def policy(self) -> str:
        """The name of the policy in the library."""
        names = {"mlp": "MlpLstmPolicy", "cnn": "CnnLstmPolicy"}
        return names.get(self.input, "MultiInputLstmPolicy")

    def arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of the policy; fields override `policy_kwargs`."""
        return {
            **self.policy_kwargs,
            **network_arguments(self.network, self.actor, self.critic, self.activation),
            **drop_none(
                ortho_init=self.ortho_init,
                lstm_hidden_size=self.lstm_hidden_size,
                n_lstm_layers=self.n_lstm_layers,
                shared_lstm=self.shared_lstm,
                enable_critic_lstm=self.enable_critic_lstm,
            ),
        }
