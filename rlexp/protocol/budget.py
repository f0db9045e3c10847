"""The budget of a run, its evaluations, the definition of its score, and its compute settings."""

import re
from dataclasses import asdict, dataclass, field
from math import inf, isfinite
from typing import Annotated, Any

from annotated_types import Ge, Interval

from rlexp.errors import ConfigError
from rlexp.protocol.measures import CURVE_RULES, RETURN, SCORE_RULES, quantity_of
from rlexp.protocol.seeds import MAXIMUM_EVALUATIONS

DEVICE = re.compile(r"cpu|mps|cuda(:\d+)?")
OPERATIONAL = (
    *("checkpoint_every", "checkpoint_minutes", "timeout", "keep_last"),
    "system_metrics_seconds",
)
"""Settings that change no number of a run, and are therefore not part of its identity."""
LEAN = "lean"
"""The compute setting that changes no number of a run either."""
BATCH = "batch"
"""The compute setting with the number of compiled runs that are advanced together."""
MOST_BATCH = 4096
"""Runs that are advanced together, at most."""
KEEP_BELOW = "keep_below"
"""The setting of attempts in a sweep below whose environment steps tuning runs keep their state, with
the replay buffer, because a longer run may continue it."""
RESTARTS = "restarts"
"""The setting that only `rlexp extend` makes; a training that extends none has no earlier parts."""
STOP_AT = "stop_at"
"""The setting that ends a training at a return; records without it keep the form that they had."""

TENTH = "tenth"
"""Value of `evaluation_every` in a configuration that means a tenth of `steps`."""


def overtime_text(timeout: float) -> str:
    """Why a run that exceeded `budget.timeout` ended, and which setting allows more."""
    return f"not done after {timeout:g} s; to allow more, raise budget.timeout"


def evaluation_interval(evaluation_every: Any, steps: Any) -> Any:
    """The number of environment steps that `budget.evaluation_every` means.

    Args:
        evaluation_every: The value in a configuration: a number, a string or None.
        steps: The value of `budget.steps` in the same configuration.

    Returns:
        For `tenth` a tenth of the steps, at least 1, or None if the steps are not a number, which
        is refused later. Any value that is not a string is returned unchanged.

    Raises:
        ConfigError: The value is a string other than `tenth`.
    """
    if not isinstance(evaluation_every, str):
        return evaluation_every
    if evaluation_every != TENTH:
        raise ConfigError(
            f"budget.evaluation_every={evaluation_every} is no interval: write a number of "
            f"environment steps, {TENTH} (a tenth of budget.steps), or null (only the final "
            "evaluation)"
        )
    if not isinstance(steps, int | float) or not isfinite(steps):
        return None
    return max(int(steps) // 10, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Environment steps, evaluations and limits of one run.

    `score` is declared before the run starts: `final` is the mean return of the final policy
    over `final_episodes` fresh episodes, `auc` the mean height of the evaluation curve,
    `last_window` the mean return of the evaluations in the last tenth of training. Any other
    score names a measure, and is its mean over the episodes of the final evaluation.

    `restarts` are the lengths of the earlier parts of an extended training, in environment steps,
    after each of which its schedules began again. Only `rlexp extend` sets it.
    `stop_at` ends a training before its steps are used: where the last 100 training episodes have this
    mean return. The final evaluation and its score follow as usual.
    """

    steps: Annotated[int, Ge(1)]
    evaluation_every: Annotated[int, Ge(1)] | None
    evaluation_episodes: Annotated[int, Ge(1)]
    evaluation_deterministic: bool
    final_episodes: Annotated[int, Ge(1)]
    score: str
    checkpoint_every: Annotated[int, Ge(1)] | None = None
    checkpoint_minutes: Annotated[float, Interval(gt=0, lt=inf)] | None = None
    timeout: Annotated[float, Interval(gt=0, lt=inf)] | None = None
    keep_last: bool | None = None
    system_metrics_seconds: Annotated[float, Interval(ge=1, lt=inf)] | None = None
    restarts: tuple[int, ...] | None = None
    stop_at: Annotated[float, Interval(gt=-inf, lt=inf)] | None = None

    def __post_init__(self) -> None:
        """Refuse a score that lacks its evaluations, and more evaluations than have seeds."""
        self._check_score()
        if self.stop_at is not None and self.reads_curve:
            raise ConfigError(
                f"budget.stop_at ends some curves early, and budget.score={self.score} reads them to "
                "their ends: use budget.score=final",
                key="budget.stop_at",
            )
        if self.restarts is not None:
            # Records hold a list, and JSON knows no tuples.
            object.__setattr__(self, RESTARTS, tuple(self.restarts))
        if self.evaluation_every is None:
            if self.reads_curve:
                raise ConfigError(
                    f"budget.score={self.score} reads the evaluation curve; "
                    "set budget.evaluation_every",
                )
            return
        count = self.steps // self.evaluation_every
        if count == 0 and self.reads_curve:
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

    @property
    def quantity(self) -> str:
        """The quantity of the score: `return`, or the name of a measure."""
        return quantity_of(self.score)

    @property
    def reads_curve(self) -> bool:
        """Whether the score is computed from the evaluations during training."""
        return self.score in CURVE_RULES

    def _check_score(self) -> None:
        """Refuse a score that is neither a rule nor a possible name of a measure."""
        if self.score != RETURN and self.score.strip() and self.score.isprintable():
            return
        raise ConfigError(
            f"budget.score={self.score!r} must be {', '.join(SCORE_RULES)} (of the return), or the "
            "name of a measure, such as success",
            code="unknown_value",
            key="budget.score",
            allowed=SCORE_RULES,
        )

    def defining(self) -> dict[str, Any]:
        """The settings that determine the numbers of a run."""
        settings = {key: value for key, value in asdict(self).items() if key not in OPERATIONAL}
        # JSON knows no tuples, and records without restarts keep the form that they always had.
        restarts = settings.pop(RESTARTS)
        if settings[STOP_AT] is None:
            settings.pop(STOP_AT)
        return settings if restarts is None else {**settings, RESTARTS: list(restarts)}

    def operational(self) -> dict[str, Any]:
        """The settings that change no number: checkpoints, kept copy, time limit, measurements."""
        return {key: getattr(self, key) for key in OPERATIONAL}


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute:
    """Compute settings: threads, device and batch, which change the numbers of a run, and shortcuts.

    The number of threads changes the order of sums in the learner, and so the weights. So does
    `batch`, the number of compiled runs that are advanced together. With `lean`, a run uses
    shortcuts that change no number, so configurations are equal with it and without.
    """

    threads: Annotated[int, Ge(1)]
    device: str
    batch: Annotated[int, Interval(ge=1, le=MOST_BATCH)] = 1
    lean: bool = field(default=True, compare=False)

    def __post_init__(self) -> None:
        """Refuse an unknown device; the device of imported runs is None."""
        if self.device is not None and not DEVICE.fullmatch(self.device):
            raise ConfigError(
                f"compute.device={self.device!r} is no device: use cpu, cuda, cuda:N or mps",
            )

    def defining(self) -> dict[str, Any]:
        """The settings that change the numbers of a run."""
        settings = {"threads": self.threads, "device": self.device}
        # Records of single runs keep the form that they always had.
        return settings if self.batch == 1 else {**settings, BATCH: self.batch}

    def operational(self) -> dict[str, Any]:
        """The setting that changes no number."""
        return {LEAN: self.lean}
