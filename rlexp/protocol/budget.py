"""What a run may spend, how it is evaluated, and which of its numbers is its score."""

import re
from dataclasses import asdict, dataclass
from math import inf, isfinite
from typing import Annotated, Any, Literal

from annotated_types import Ge, Interval

from rlexp.errors import ConfigError
from rlexp.protocol.seeds import MAXIMUM_EVALUATIONS

DEVICE = re.compile(r"cpu|mps|cuda(:\d+)?")
OPERATIONAL = ("checkpoint_every", "checkpoint_minutes", "timeout")
"""Settings that change no number of a run, and so are no part of what identifies it."""


TENTH = "tenth"
"""Value of `evaluation_every` in a configuration that stands for a tenth of `steps`."""


def evaluation_interval(evaluation_every: Any, steps: Any) -> Any:
    """The number of environment steps that `budget.evaluation_every` stands for.

    Args:
        evaluation_every: The value in a configuration: a number, a word, or nothing.
        steps: The value of `budget.steps` beside it.

    Returns:
        A tenth of the steps, at least 1, for the word `tenth`; nothing where the steps are no
        number, which is refused later; any value that is no word as it is.

    Raises:
        ConfigError: The word is another one.
    """
    if not isinstance(evaluation_every, str):
        return evaluation_every
    if evaluation_every != TENTH:
        raise ConfigError(
            f"budget.evaluation_every={evaluation_every} is no interval: write a number of "
            f"environment steps, {TENTH} (a tenth of budget.steps), or null (the final "
            "evaluation only)"
        )
    if not isinstance(steps, int | float) or not isfinite(steps):
        return None
    return max(int(steps) // 10, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Environment steps, evaluations and limits of one run.

    `score` is declared before the run starts: `final` is the mean return of the final policy
    over `final_episodes` fresh episodes, `auc` the mean height of the evaluation curve,
    `last_window` the mean return of the evaluations in the last tenth of training.
    """

    steps: Annotated[int, Ge(1)]
    evaluation_every: Annotated[int, Ge(1)] | None
    evaluation_episodes: Annotated[int, Ge(1)]
    evaluation_deterministic: bool
    final_episodes: Annotated[int, Ge(1)]
    score: Literal["final", "auc", "last_window"]
    checkpoint_every: Annotated[int, Ge(1)] | None = None
    checkpoint_minutes: Annotated[float, Interval(gt=0, lt=inf)] | None = None
    timeout: Annotated[float, Interval(gt=0, lt=inf)] | None = None

    def __post_init__(self) -> None:
        """Refuse a score without its evaluations, and more evaluations than can be seeded."""
        if self.evaluation_every is None:
            if self.score != "final":
                raise ConfigError(
                    f"budget.score={self.score} reads the evaluation curve; "
                    "set budget.evaluation_every",
                )
            return
        count = self.steps // self.evaluation_every
        if count == 0 and self.score != "final":
            raise ConfigError(
                f"budget.evaluation_every={self.evaluation_every} is more than "
                f"budget.steps={self.steps}, and budget.score={self.score} reads the evaluation "
                "curve; evaluate more often",
            )
        if count > MAXIMUM_EVALUATIONS:
            least = -(-self.steps // MAXIMUM_EVALUATIONS)
            raise ConfigError(
                f"budget.evaluation_every={self.evaluation_every} means {count:,} evaluations; "
                f"at most {MAXIMUM_EVALUATIONS:,} can be seeded apart: use {least} or more",
            )

    def defining(self) -> dict[str, Any]:
        """The part that decides the numbers of a run."""
        return {key: value for key, value in asdict(self).items() if key not in OPERATIONAL}

    def operational(self) -> dict[str, Any]:
        """The part that changes no number: cadence of checkpoints, time limit."""
        return {key: getattr(self, key) for key in OPERATIONAL}


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute:
    """What changes the numbers besides the configuration: weights depend on the threads."""

    threads: Annotated[int, Ge(1)]
    device: str

    def __post_init__(self) -> None:
        """Refuse what is no device of the library; of imported runs it is not known."""
        if self.device is not None and not DEVICE.fullmatch(self.device):
            raise ConfigError(
                f"compute.device={self.device!r} is no device: use cpu, cuda, cuda:N or mps",
            )
