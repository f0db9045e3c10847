"""The agent for vector observations."""

from dataclasses import dataclass
from typing import Any, ClassVar

from rlexp.agents.networks import Activation, Layers, check_layers, drop_none, network_arguments
from rlexp.protocol.identity import Identity
from rlexp.protocol.step_schedule import Stepped


@dataclass(frozen=True, slots=True, kw_only=True)
class MLP:
    """Fully connected networks on vectors; discrete observations become one-hot vectors.

    A field that is null keeps the default of the library.
    """

    identity: ClassVar = Identity("agent", "mlp")

    observations: ClassVar[tuple[str, ...]] = ("Box", "Discrete", "MultiDiscrete", "MultiBinary")

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
    policy_kwargs: dict[str, Any]
    """Further arguments of the library's policy, such as `n_critics` or `log_std_init`."""

    def __post_init__(self) -> None:
        check_layers(self.network, self.actor, self.critic)

    @property
    def policy(self) -> str:
        """The name of the policy in the library."""
        return "MlpPolicy"

    def arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of the policy; fields override `policy_kwargs`."""
        return {
            **self.policy_kwargs,
            **network_arguments(self.network, self.actor, self.critic, self.activation),
            **drop_none(
                ortho_init=self.ortho_init,
            ),
        }
