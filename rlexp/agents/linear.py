"""The agent of augmented random search."""

from dataclasses import dataclass
from typing import Any, ClassVar

from rlexp.agents.networks import drop_none
from rlexp.protocol.identity import Identity


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """A linear map from observations to actions (algorithm=ars).

    A field that is null keeps the default of the library.
    """

    identity: ClassVar = Identity("agent", "linear")

    observations: ClassVar[tuple[str, ...]] = ("Box", "Discrete", "MultiDiscrete", "MultiBinary")

    with_bias: bool | None
    """Whether a constant is added to the map."""
    squash_output: bool | None
    """Whether continuous actions pass through a tanh instead of being clipped."""

    @property
    def policy(self) -> str:
        """The name of the policy in the library."""
        return "LinearPolicy"

    def arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of the policy."""
        return drop_none(with_bias=self.with_bias, squash_output=self.squash_output)
