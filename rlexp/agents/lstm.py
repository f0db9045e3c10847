"""The agent that remembers."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from rlexp.agents.networks import Activation, Count, Layers, check_layers, given, shape
from rlexp.protocol.identity import Identity


@dataclass(frozen=True, slots=True, kw_only=True)
class LSTM:
    """Networks with a memory: an LSTM behind the features, layers behind the LSTM.

    A field that is null leaves the library's own default.
    """

    identity: ClassVar = Identity("agent", "lstm")

    input: Literal["mlp", "cnn", "multi_input"]
    """What reads the observations: `mlp` vectors, `cnn` images, `multi_input` a dictionary."""
    network: Layers | None
    """Hidden layers of actor and critic alike, or of the only network."""
    actor: Layers | None
    """Hidden layers of the actor; goes with `critic`, instead of `network`."""
    critic: Layers | None
    """Hidden layers of the critic."""
    activation: Activation | None
    """Function between layers."""
    ortho_init: bool | None
    """Whether weights begin orthogonal (on-policy algorithms)."""
    lstm_hidden_size: Count | None
    """Units of a layer of the LSTM."""
    n_lstm_layers: Count | None
    """Layers of the LSTM."""
    shared_lstm: bool | None
    """Whether actor and critic share one LSTM; needs `enable_critic_lstm=false`."""
    enable_critic_lstm: bool | None
    """Whether the critic has an LSTM of its own."""
    policy_kwargs: dict[str, Any]
    """Further arguments of the library's policy, such as `n_critics` or `log_std_init`."""

    def __post_init__(self) -> None:
        check_layers(self.network, self.actor, self.critic)

    @property
    def observations(self) -> tuple[str, ...]:
        """Names of the observation spaces that its input reads."""
        vectors = ("Box", "Discrete", "MultiDiscrete", "MultiBinary")
        return {"mlp": vectors, "cnn": ("Image",)}.get(self.input, ("Dict",))

    @property
    def policy(self) -> str:
        """The name of the policy in the library."""
        names = {"mlp": "MlpLstmPolicy", "cnn": "CnnLstmPolicy"}
        return names.get(self.input, "MultiInputLstmPolicy")

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of the policy; a field that is set wins over `policy_kwargs`."""
        return {
            **self.policy_kwargs,
            **shape(self.network, self.actor, self.critic, self.activation),
            **given(
                ortho_init=self.ortho_init,
                lstm_hidden_size=self.lstm_hidden_size,
                n_lstm_layers=self.n_lstm_layers,
                shared_lstm=self.shared_lstm,
                enable_critic_lstm=self.enable_critic_lstm,
            ),
        }
