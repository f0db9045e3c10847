"""Datasets of Minari: episodes on this machine's disk."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from importlib.util import find_spec
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from annotated_types import Ge

from rlexp.datasets import Use
from rlexp.datasets.minari_files import (
    KEY,
    ORIGIN,
    ROOT,
    MinariFiles,
    default_root,
    find_files,
    is_path,
)
from rlexp.errors import ConfigError, RecordError
from rlexp.installation_way import install_command
from rlexp.protocol.identity import Identity
from rlexp.records.integrity import SHORT

if TYPE_CHECKING:
    import gymnasium

    from rlexp.datasets.recorded import Episode

PACKAGES = {"hdf5": ("minari", "h5py"), "arrow": ("minari", "pyarrow")}
"""Packages that read the data, by its format."""
EXTRA = "datasets"


@dataclass(frozen=True, slots=True, kw_only=True)
class Minari:
    """A local dataset of Minari (Younis et al. 2024, https://minari.farama.org).

    Its place is no part of a run's identity, and its content is.
    """

    identity: ClassVar = Identity(
        "dataset", "minari", excluded=("id", "root", "random_score", "expert_score")
    )

    id: str
    """Its id in the root folder, or the path of its folder or its file."""
    root: str | None = None
    """The folder with datasets; null: `MINARI_DATASETS_PATH`, or `~/.minari/datasets`."""
    use: Use = "warm_start"
    """After the offline steps: `warm_start` drops the data, `mix` keeps it for minibatches."""
    offline_steps: Annotated[int, Ge(0)] = 10_000
    """Gradient steps on the data before any environment step."""
    digest: str | None = None
    """The sha256 of its content; null takes that of the content which is there now."""
    random_score: float | None = None
    """Return of a random policy; null takes what the metadata declares (`ref_min_score`)."""
    expert_score: float | None = None
    """Return of an expert; null takes what the metadata declares (`ref_max_score`)."""

    def __post_init__(self) -> None:
        """Compute the digest of the content, and read the reference scores.

        Raises:
            ConfigError: There is no such dataset, or a reference score is no number of a scale.
        """
        try:
            files = self.files()
        except ConfigError:
            # A digest comes from a recorded run, whose dataset may be on another machine.
            if self.digest is None:
                raise
            self._check_scores()
            return
        # A recorded run keeps the scores that it recorded, whatever the metadata declares now.
        declared = files.reference if self.digest is None else {}
        taken = {
            "digest": self.digest or files.digest,
            "random_score": declared.get("minimum") if self.random_score is None else None,
            "expert_score": declared.get("maximum") if self.expert_score is None else None,
        }
        for name, value in taken.items():
            if value is not None:
                object.__setattr__(self, name, value)
        self._check_scores()

    def _check_scores(self) -> None:
        """Refuse reference scores that are no scale.

        Raises:
            ConfigError: One is not finite, or the random one is not the lower one.
        """
        scores = [score for score in (self.random_score, self.expert_score) if score is not None]
        if not all(map(isfinite, scores)) or (len(scores) == 2 and not scores[0] < scores[1]):
            named = {"random_score": self.random_score, "expert_score": self.expert_score}
            given = [
                f"dataset.{name}={score}" for name, score in named.items() if score is not None
            ]
            raise ConfigError(
                f"{' and '.join(given)} must be finite, and random_score must be below expert_score",
                key="dataset.random_score",
            )

    @property
    def name(self) -> str:
        """The name of the dataset, as it was given."""
        return self.id

    def files(self) -> MinariFiles:
        """The files of the dataset; of a recorded run, also in Minari's folder on another machine.

        Raises:
            ConfigError: There is no such dataset.
        """
        try:
            return find_files(self.id, self.root)
        except ConfigError:
            if self.root is None or self.digest is None:
                raise
            return find_files(self.id, None)

    @property
    def of_test_seeds(self) -> bool:
        """Whether policies of test seeds have recorded it, so that it must not serve a choice."""
        origin = self.files().metadata.get(ORIGIN)
        policies = origin.get("policies", []) if isinstance(origin, Mapping) else []
        return any(isinstance(each, Mapping) and each.get("phase") == "test" for each in policies)

    def episodes(self) -> "Iterator[Episode]":
        """Yield every episode, in its order.

        Raises:
            ConfigError: The content is damaged.
        """
        from rlexp.datasets.episodes import read_episodes

        return read_episodes(self.files())

    def check_content(self) -> None:
        """Refuse content that is missing or has changed.

        Raises:
            ConfigError: It is missing, it cannot be read, or a package is not installed.
            RecordError: It has changed.
        """
        files = self._recorded_files()
        kind = str(files.metadata.get("data_format"))
        if kind not in PACKAGES:
            readable = " or ".join(PACKAGES)
            raise ConfigError(
                f"{KEY}={self.id} has the format {kind}, and only {readable} can be read", key=KEY
            )
        missing = [name for name in PACKAGES[kind] if find_spec(name) is None]
        if missing:
            raise ConfigError.missing_package(
                f"{KEY}={self.id} needs {' and '.join(missing)}, which is not installed",
                install_command(EXTRA),
                key=KEY,
            )
        if files.digest != self.digest:
            raise RecordError(
                f"the dataset {self.id} ({files.folder}) changed since the run was asked for, and its "
                "content is part of what defines the run: put it back, or ask for the run under another "
                "experiment=…"
            )

    def _recorded_files(self) -> MinariFiles:
        """The files of the dataset with whose content the run was asked for.

        Raises:
            ConfigError: They are not on this machine.
        """
        try:
            return self.files()
        except ConfigError as error:
            there = "put it there"
            if not is_path(self.id):
                there = f"put it into {default_root()}, or set {ROOT} to the folder that has it"
            raise ConfigError(
                f"the run starts from the dataset {self.id} (sha256 {str(self.digest)[:SHORT]}), which is "
                f"not on this machine: {there}",
                key=KEY,
            ) from error

    def check_spaces(self, make: "Callable[[], gymnasium.Env[Any, Any]] | None") -> None:
        """Read every episode, and compare the spaces with those of an environment.

        Raises:
            ConfigError: The content is damaged, or was recorded with other spaces.
        """
        from rlexp.datasets.episodes import check_against, read_episodes, read_spaces

        files = self.files()
        if make is not None:
            with closing(make()) as environment:
                spaces = environment.observation_space, environment.action_space
            check_against(read_spaces(files), *spaces)
        for _ in read_episodes(files):
            pass

    def for_script(self) -> dict[str, Any]:
        """The folder that `minari.MinariDataset` opens, the id, the digest and the reference scores."""
        files, ends = self.files(), (self.random_score, self.expert_score)
        declared = {} if None in ends else dict(zip(("minimum", "maximum"), ends, strict=True))
        return {
            "id": str(files.metadata.get("dataset_id", self.id)),
            "path": str(files.folder.absolute()),
            "digest": self.digest,
            "reference": declared,
        }
