"""Any environment that is registered in Gymnasium."""

from dataclasses import dataclass

from rlexp.environments.registered import RegisteredTask


@dataclass(frozen=True, slots=True, kw_only=True)
class GymnasiumTask(RegisteredTask):
    """A Gymnasium environment by its id, with keyword arguments and wrappers."""
