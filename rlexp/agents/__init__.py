"""Agents: what decides. A member names a policy class and the arguments that shape it."""

from typing import Any, Protocol


class Agent(Protocol):
    """A policy: its class in the library and its architecture.

    Its class variable `identity` (`rlexp.protocol.identity.Identity`) names it in records. A class
    without one is named by its module path.
    """

    @property
    def observations(self) -> tuple[str, ...]:
        """Names of the Gymnasium observation spaces that it reads; `Image` is a Box of pixels."""
        ...

    @property
    def policy(self) -> str:
        """The name of the policy in the library (`MlpPolicy`)."""
        ...

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of the policy; what is unset stays the library's own default."""
        ...
