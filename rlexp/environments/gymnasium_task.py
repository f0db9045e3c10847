"""Any environment that is registered in Gymnasium."""

from dataclasses import dataclass
from typing import ClassVar

from rlexp.environments.registered import RegisteredTask
from rlexp.protocol.identity import Identity


@dataclass(frozen=True, slots=True, kw_only=True)
class GymnasiumTask(RegisteredTask):
    """A Gymnasium environment by its id, with keyword arguments and wrappers."""

    identity: ClassVar = Identity("environment", "gymnasium")
