"""Datasets: plug-ins that provide recorded experience, from which a training starts."""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    import gymnasium

    from rlexp.datasets.recorded import Episode

Use = Literal["warm_start", "mix"]
"""What becomes of the data after the offline stage: it is dropped, or it is mixed into minibatches."""


class Dataset(Protocol):
    """Recorded experience; its fields are its settings.

    Its class variable `identity` (`rlexp.protocol.identity.Identity`) names it in records. Its setting
    `digest` holds the sha256 of the content, so that a changed dataset makes another run. It may have the
    settings `random_score` and `expert_score`, the returns for D4RL's normalised score, which its identity
    excludes.
    """

    @property
    def name(self) -> str:
        """The name of the dataset, as it was given."""
        ...

    @property
    def use(self) -> Use:
        """What becomes of the data after the offline stage."""
        ...

    @property
    def offline_steps(self) -> int:
        """Gradient steps on the data before any environment step."""
        ...

    @property
    def of_test_seeds(self) -> bool:
        """Whether policies of test seeds have recorded it, so that it must not serve a choice."""
        ...

    def episodes(self) -> "Iterator[Episode]":
        """Yield every episode, in its order.

        Raises:
            ConfigError: The content is damaged.
        """
        ...

    def check_content(self) -> None:
        """Refuse content that is missing, or that is not the content with which the run was asked for.

        Raises:
            ConfigError: It is missing, it cannot be read, or a package is not installed.
            RecordError: It has changed.
        """
        ...

    def check_spaces(self, make: "Callable[[], gymnasium.Env[Any, Any]] | None") -> None:
        """Read the content in a new process, and compare its spaces with those of an environment.

        Args:
            make: Makes the environment; None where only a training script can.

        Raises:
            ConfigError: The content is damaged, or was recorded with other spaces.
        """
        ...

    def for_script(self) -> Mapping[str, Any]:
        """What a training script receives about the dataset, as JSON values."""
        ...
