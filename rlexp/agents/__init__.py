"""Agents: what decides. A member names a policy class and the arguments that shape it."""

from typing import Any, ClassVar, Protocol


class Agent(Protocol):
    """A policy: its class in the library and its architecture."""

    observations: ClassVar[tuple[str, ...]]
    """Names of the Gymnasium observation spaces that the agent can read."""

    @property
    def policy(self) -> str:
        """The name of the policy in the library (`MlpPolicy`)."""
        ...

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of the policy; what is unset stays the library's own default."""
        ...
