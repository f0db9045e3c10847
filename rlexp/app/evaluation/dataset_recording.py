"""Records episodes of restored policies as a Minari dataset.

`rlexp evaluate --record` records one policy, and `rlexp export minari` several.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlexp.app.evaluation.playback import Player, Policy, environment_errors
from rlexp.app.observer import Observer
from rlexp.datasets.minari_files import ORIGIN
from rlexp.datasets.recorded import Episode
from rlexp.datasets.writing import new_folder, write_dataset
from rlexp.errors import ConfigError
from rlexp.protocol.identity import short_name

if TYPE_CHECKING:
    from rlexp.training.evaluate import Episodes


@dataclass(frozen=True, slots=True)
class RecordedPolicy:
    """A policy whose episodes become a part of a dataset.

    Attributes:
        run: Its run (`EXPERIMENT/RUN`).
        policy: The policy as it was saved.
        player: The restored policy.
    """

    run: str
    policy: Policy
    player: Player

    def origin(self, episodes: int) -> dict[str, Any]:
        """The entry of the metadata: what played so many episodes, as JSON values."""
        spec = self.policy.spec
        return {
            "run": self.run,
            "id": spec.id,
            "phase": str(spec.phase),
            "seed": spec.seed,
            "step": self.policy.step,
            "weights": self.policy.weights,
            "draw": self.player.draw,
            "deterministic": self.player.deterministic,
            "episodes": episodes,
        }


def record_dataset(
    name: str,
    policies: Sequence[RecordedPolicy],
    episodes: int,
    observer: Observer,
    *,
    option: str,
) -> "list[Episodes]":
    """Play episodes with each policy, and write all of them as one dataset, or nothing.

    Args:
        name: The id of the dataset.
        policies: The policies, whose episodes follow one another.
        episodes: Number of episodes of each policy.
        observer: Receives notes of progress.
        option: The option that gives the id, for messages.

    Returns:
        The returns and lengths of the episodes of each policy.

    Raises:
        ConfigError: The dataset cannot be written, or the policies have different spaces.
    """
    from rlexp.environments import Stage
    from rlexp.environments.composed import at_stage
    from rlexp.training.episode_recording import WithRecording

    folder = new_folder(name, option)
    _check_equal_spaces(policies)
    played: list[Episodes] = []

    def recorded() -> Iterator[Episode]:
        for each in policies:
            environment = at_stage(each.player.training.environment, Stage.EVALUATION)
            recording = WithRecording(environment)
            # An error of the environment is none of the files that are being written.
            with environment_errors():
                played.append(each.player.play(episodes, observer, recording))
            yield from recording.episodes()

    first = at_stage(policies[0].player.training.environment, Stage.EVALUATION)
    with closing(first.make()) as environment:
        write_dataset(folder, name, recorded(), environment, _metadata(policies, episodes))
    return played


def _check_equal_spaces(policies: Sequence[RecordedPolicy]) -> None:
    """Refuse policies whose environments have other spaces than that of the first one."""
    spaces = [_spaces(each.player) for each in policies]
    for each, there in zip(policies, spaces, strict=True):
        if there != spaces[0]:
            raise ConfigError(
                f"{each.run} and {policies[0].run} have different observation or action spaces, and a "
                "dataset has one of each: record them as two datasets"
            )


def _spaces(player: Player) -> tuple[Any, Any]:
    with closing(player.training.environment.make()) as environment:
        return environment.observation_space, environment.action_space


def _metadata(policies: Sequence[RecordedPolicy], episodes: int) -> Mapping[str, Any]:
    algorithms = dict.fromkeys(short_name(each.policy.spec.algorithm) for each in policies)
    origins = [each.origin(episodes) for each in policies]
    return {"algorithm_name": ", ".join(algorithms), ORIGIN: {"policies": origins}}
