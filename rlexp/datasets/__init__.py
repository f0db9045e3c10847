"""Datasets: plug-ins that provide recorded experience, from which a training starts."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import gymnasium


class Dataset(Protocol):
    """Recorded experience; its fields are its settings.

    Its class variable `identity` (`rlexp.protocol.identity.Identity`) names it in records. Its setting
    `digest` holds the sha256 of the content, so that a changed dataset makes another run.
    """

    @property
    def name(self) -> str:
        """The name of the dataset, as it was given."""
        ...

    def check_content(self) -> None:
        """Refuse content that is missing, or that is not the content with which the run was asked for.

        Raises:
            ConfigError: It is missing, it cannot be read, or a package is not installed.
            RecordError: It has changed.
        """
        ...

    def check_spaces(self, make: "Callable[[], gymnasium.Env[Any, Any]] | None") -> None:
        """Read the content, and compare its spaces with those of an environment; in a process of its own.

        Args:
            make: Makes the environment; None where only a training script can.

        Raises:
            ConfigError: The content is damaged, or was recorded with other spaces.
        """
        ...

    def for_script(self) -> Mapping[str, Any]:
        """What a training script is told about the dataset, as JSON values."""
        ...
