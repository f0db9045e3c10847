"""The agent for images."""

from dataclasses import dataclass
from typing import Any, ClassVar

from rlexp.agents.networks import Activation, Count, Layers, check_layers, given, shape
from rlexp.protocol.identity import Identity


@dataclass(frozen=True, slots=True, kw_only=True)
class CNN:
    """Convolutions (Mnih et al. 2015) that read images, and layers behind them.

    A field that is null leaves the library's own default.
    """

    identity: ClassVar = Identity("agent", "cnn")

    observations: ClassVar[tuple[str, ...]] = ("Image",)

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
    features_dim: Count | None
    """Features that the convolutions hand to the layers behind them."""
    normalize_images: bool | None
    """Whether pixels are divided by 255."""
    share_features_extractor: bool | None
    """Whether actor and critic read the same features."""
    policy_kwargs: dict[str, Any]
    """Further arguments of the library's policy, such as `n_critics` or `log_std_init`."""

    def __post_init__(self) -> None:
        check_layers(self.network, self.actor, self.critic)

    @property
    def policy(self) -> str:
        """The name of the policy in the library."""
        return "CnnPolicy"

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of the policy; a field that is set wins over `policy_kwargs`."""
        features = given(features_dim=self.features_dim)
        return {
            **self.policy_kwargs,
            **shape(self.network, self.actor, self.critic, self.activation),
            **given(
                ortho_init=self.ortho_init,
                normalize_images=self.normalize_images,
                share_features_extractor=self.share_features_extractor,
                features_extractor_kwargs=features or None,
            ),
        }
