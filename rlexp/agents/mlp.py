"""The agent for vectors."""

from dataclasses import dataclass
from typing import Any, ClassVar

from rlexp.agents.networks import Activation, Layers, check_layers, given, shape
from rlexp.protocol.identity import Identity


@dataclass(frozen=True, slots=True, kw_only=True)
class MLP:
    """Fully connected networks that read a vector, or numbers as one-hot vectors.

    A field that is null leaves the library's own default.
    """

    identity: ClassVar = Identity("agent", "mlp")

    observations: ClassVar[tuple[str, ...]] = ("Box", "Discrete", "MultiDiscrete", "MultiBinary")

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
    policy_kwargs: dict[str, Any]
    """Further arguments of the library's policy, such as `n_critics` or `log_std_init`."""

    def __post_init__(self) -> None:
        check_layers(self.network, self.actor, self.critic)

    @property
    def policy(self) -> str:
        """The name of the policy in the library."""
        return "MlpPolicy"

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of the policy; a field that is set wins over `policy_kwargs`."""
        return {
            **self.policy_kwargs,
            **shape(self.network, self.actor, self.critic, self.activation),
            **given(
                ortho_init=self.ortho_init,
            ),
        }
