"""The agent for image observations."""

from dataclasses import dataclass
from typing import Any, ClassVar

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
class CNN:
    """Convolutions (Mnih et al. 2015) on images, followed by fully connected layers.

    A field that is null keeps the default of the library.
    """

    identity: ClassVar = Identity("agent", "cnn")

    observations: ClassVar[tuple[str, ...]] = ("Image",)

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
    features_dim: Count | None
    """Number of output features of the convolutions."""
    normalize_images: bool | None
    """Whether pixels are divided by 255."""
    share_features_extractor: bool | None
    """Whether actor and critic share one feature extractor."""
    policy_kwargs: dict[str, Any]
    """Further arguments of the library's policy, such as `n_critics` or `log_std_init`."""

    def __post_init__(self) -> None:
        check_layers(self.network, self.actor, self.critic)

    @property
    def policy(self) -> str:
        """The name of the policy in the library."""
        return "CnnPolicy"

    def arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of the policy; fields override `policy_kwargs`."""
        features = drop_none(features_dim=self.features_dim)
        return {
            **self.policy_kwargs,
            **network_arguments(self.network, self.actor, self.critic, self.activation),
            **drop_none(
                ortho_init=self.ortho_init,
                normalize_images=self.normalize_images,
                share_features_extractor=self.share_features_extractor,
                # An empty dictionary would replace the one that `policy_kwargs` may hold.
                features_extractor_kwargs=features or None,
            ),
        }
