"""Agents: policies. An agent plug-in names a policy class of the library and its arguments."""

from typing import Any, Protocol


class Agent(Protocol):
    """A policy: its class in the library and its architecture.

    Its class variable `identity` (`rlexp.protocol.identity.Identity`) names it in records. A class
    without one is named by its module path.
    """

    @property
    def observations(self) -> tuple[str, ...]:
        """Names of the Gymnasium observation spaces that it accepts; `Image` is a Box of pixels."""
        ...

    @property
    def policy(self) -> str:
        """The name of the policy in the library (`MlpPolicy`)."""
        ...

    def arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of the policy; others keep the default of the library."""
        ...
