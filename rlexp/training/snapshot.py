"""Everything a training needs to go on as if nothing had happened: taken, and put back."""

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import unwrap_vec_normalize

from rlexp.errors import RecordError
from rlexp.records.checkpoint import (
    MODEL,
    NORMALISATION,
    STATE,
    Checkpoint,
    SavedCheckpoint,
    Transitions,
)
from rlexp.records.events import Evaluated
from rlexp.training import learner_state
from rlexp.training.learner_state import capture_generators, pack, restore_generators, unpack
from rlexp.training.parameters import fill
from rlexp.training.situation import NotRepeatable, capture, restore
from rlexp.training.stopping import Stopped, TimedOut
from rlexp.training.vectorise import write_statistics


class CannotContinue(Exception):  # noqa: N818
    """A checkpoint cannot be continued from; says why in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What a training has done besides learning: its evaluations, and the seconds it took."""

    evaluations: tuple[Evaluated, ...]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A training between two rollouts, kept in memory."""

    step: int
    model: bytes
    normalisation: bytes | None
    state: dict[str, Any]
    extent: learner_state.Extent

    @classmethod
    def take(cls, model: BaseAlgorithm, progress: Progress) -> "Snapshot":
        """Copy everything; a training that cannot go on from there says why in its state."""
        assert model.env is not None
        obstacle = learner_state.obstacle(model) or learner_state.replay_obstacle(model)
        state: dict[str, Any] = {"obstacle": obstacle}
        extent = learner_state.Extent(0, 0)
        if obstacle is None:
            extent = learner_state.extent(model)
            state |= {
                "learner": learner_state.capture_learner(model),
                "generators": capture_generators(model),
                "environments": capture(model.env),
                "next_row": learner_state.pending(model),
                "evaluations": [_plain(e) for e in progress.evaluations],
                "seconds": progress.seconds,
            }
        return cls(
            step=model.num_timesteps,
            model=learner_state.save_parameters(model),
            normalisation=_statistics(model),
            state=state,
            extent=extent,
        )

    def checkpoint(self, model: BaseAlgorithm, written: int) -> Checkpoint | None:
        """As files, with the experience from row `written` on.

        Returns:
            Nothing where the buffer has lost some of that experience meanwhile.
        """
        if not self.is_whole(model, written):
            return None
        begin, end = max(written, self.extent.oldest), self.extent.end
        fresh = learner_state.read_rows(model, begin, end) if begin < end else None
        files = {MODEL: self.model, STATE: pack(self.state)}
        if self.normalisation is not None:
            files[NORMALISATION] = self.normalisation
        return Checkpoint(
            step=self.step, files=files, oldest=self.extent.oldest, transitions=fresh
        )

    def is_whole(self, model: BaseAlgorithm, written: int) -> bool:
        """Whether the buffer still has the experience from row `written` on."""
        begin = max(written, self.extent.oldest)
        return begin >= self.extent.end or begin >= learner_state.first_row(model)


@dataclass(frozen=True, slots=True)
class Restored:
    """A training that was put back; `begin_rollout` finishes that at its first rollout."""

    step: int
    progress: Progress
    written: int
    begin_rollout: Callable[[], None]


def put_back(
    model: BaseAlgorithm, saved: SavedCheckpoint, *, beat: Callable[[], object] = lambda: None
) -> Restored:
    """Put a freshly built learner, and its environments, where the checkpoint was taken.

    Args:
        model: As built.
        saved: What is put back.
        beat: Called again and again meanwhile; what it raises to end the training is passed on.

    Raises:
        CannotContinue: That is not possible; says why. The learner is of no use any more.
    """
    try:
        return _put_back(model, saved, unpack(saved.files[STATE]), beat)
    except (CannotContinue, Stopped, TimedOut):
        raise
    except (NotRepeatable, RecordError) as error:
        raise CannotContinue(str(error)) from error
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise CannotContinue(f"it does not fit this run ({reason})") from error


def _put_back(
    model: BaseAlgorithm,
    saved: SavedCheckpoint,
    state: dict[str, Any],
    beat: Callable[[], object],
) -> Restored:
    assert model.env is not None
    if state["obstacle"] is not None:
        raise CannotContinue(state["obstacle"])
    fill(model, io.BytesIO(saved.files[MODEL]))
    learner_state.prepare_learner(model, state["learner"])
    if model.num_timesteps != saved.step:
        raise CannotContinue(f"it holds the state of step {model.num_timesteps}")
    learner_state.fill_buffer(model, _beating(saved.transitions(), beat), state["next_row"])
    restore(model.env, state["environments"], beat=beat)
    written = learner_state.extent(model).end

    def begin_rollout() -> None:
        learner_state.restore_learner(model, state["learner"])
        # Last: whatever is done before may have drawn numbers.
        restore_generators(model, state["generators"])

    progress = Progress(
        evaluations=tuple(_evaluated(e) for e in state["evaluations"]),
        seconds=float(state["seconds"]),
    )
    return Restored(saved.step, progress, written, begin_rollout)


def _beating(
    stretches: Iterable[Transitions], beat: Callable[[], object]
) -> Iterator[Transitions]:
    for stretch in stretches:
        beat()
        yield stretch


def _statistics(model: BaseAlgorithm) -> bytes | None:
    if model.env is None or unwrap_vec_normalize(model.env) is None:
        return None
    buffer = io.BytesIO()
    write_statistics(model.env, buffer)
    return buffer.getvalue()


def _plain(event: Evaluated) -> dict[str, Any]:
    return {
        "time": event.time,
        "step": event.step,
        "returns": np.asarray(event.returns, dtype=np.float64),
        "lengths": np.asarray(event.lengths, dtype=np.int64),
        "seconds": event.seconds,
        "measures": None
        if event.measures is None
        else {k: np.asarray(v, dtype=np.float64) for k, v in event.measures.items()},
    }


def _evaluated(plain: dict[str, Any]) -> Evaluated:
    returns: Sequence[float] = plain["returns"].tolist()
    measures = plain.get("measures")
    return Evaluated(
        time=plain["time"],
        step=plain["step"],
        returns=tuple(returns),
        lengths=tuple(plain["lengths"].tolist()),
        seconds=plain["seconds"],
        measures=measures and {name: tuple(v.tolist()) for name, v in measures.items()},
    )
