"""Snapshots of a training: taken between two rollouts, and restored into a fresh learner."""

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import unwrap_vec_normalize

from rlexp.environments.task_bins import Counts
from rlexp.errors import RecordError
from rlexp.records.checkpoint import (
    MODEL,
    NORMALISATION,
    STATE,
    Checkpoint,
    SavedCheckpoint,
    Transitions,
    saved_stage,
)
from rlexp.records.events import Evaluated
from rlexp.training import learner_state
from rlexp.training.acting.callbacks import ActingCallbacks
from rlexp.training.environments.episode_log import digest
from rlexp.training.environments.replayable_env import REASON
from rlexp.training.learner_state import capture_generators, pack, restore_generators, unpack
from rlexp.training.network_changes import ChangingNetworks
from rlexp.training.parameters import load_parameters, weights_digest
from rlexp.training.stopping import Stopped, TimedOut
from rlexp.training.vec_env_state import NotReplayable, capture_vec_env, restore_vec_env
from rlexp.training.vectorise import write_statistics

CALLBACKS = "callbacks"
"""Key of the state of the callbacks that act while the run trains."""
PLAYED = "played"
"""Key of the counts of the tasks of training episodes."""


class CannotContinue(Exception):  # noqa: N818
    """A checkpoint cannot be restored; the message gives the reason in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingProgress:
    """The evaluations of a training so far, the seconds that it took, and the tasks that it played."""

    evaluations: tuple[Evaluated, ...]
    seconds: float
    played: Mapping[str, Counts] = field(default_factory=dict)
    """Episodes in each bin of a number of tasks; empty without contexts and levels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A copy of a training between two rollouts, held in memory."""

    step: int
    model: bytes
    normalisation: bytes | None
    state: dict[str, Any]
    extent: learner_state.BufferExtent
    digest: str | None = None
    """The sha256 of parameters, generators and environments; None if it cannot be continued."""

    @classmethod
    def take(
        cls,
        model: BaseAlgorithm,
        progress: TrainingProgress,
        acting: ActingCallbacks | None = None,
    ) -> "Snapshot":
        """Return a copy of the training; `state["obstacle"]` says why it cannot be continued."""
        assert model.env is not None
        obstacle = (
            learner_state.continuation_obstacle(model)
            or learner_state.replay_obstacle(model)
            or (acting.obstacle if acting else None)
        )
        state: dict[str, Any] = {"obstacle": obstacle}
        extent, state_digest = learner_state.BufferExtent(0, 0), None
        if obstacle is None:
            extent = learner_state.buffer_extent(model)
            state |= {
                "learner": learner_state.capture_learner(model),
                "generators": capture_generators(model),
                "environments": capture_vec_env(model.env),
                "next_row": learner_state.pending_row(model),
                "replay": learner_state.changing_state(model),
                "evaluations": [_event_to_dict(e) for e in progress.evaluations],
                "seconds": progress.seconds,
                "logged": learner_state.logged_values(model),
            }
            if acting:
                state[CALLBACKS] = acting.state()
            if progress.played:
                state[PLAYED] = {name: each.copy() for name, each in progress.played.items()}
            state_digest = _digest(model, state)
        return cls(
            step=model.num_timesteps,
            model=learner_state.save_parameters(model),
            normalisation=_statistics(model),
            state=state,
            extent=extent,
            digest=state_digest,
        )

    @property
    def obstacle(self) -> str | None:
        """The reason why a training cannot continue from this copy, or None."""
        reason: str | None = self.state["obstacle"] or self.state["environments"].get(REASON)
        return reason

    def checkpoint(self, model: BaseAlgorithm, written: int) -> Checkpoint | None:
        """Return the files of the checkpoint, with the experience from row `written` on.

        Returns:
            None where the replay buffer has overwritten part of that experience since.
        """
        if not self.is_whole(model, written):
            return None
        begin, end = max(written, self.extent.oldest), self.extent.end
        fresh = learner_state.read_rows(model, begin, end) if begin < end else None
        # Parameters stay a file of stable-baselines3, so that other tools can load it.
        files = {MODEL: self.model, STATE: pack(self.state)}
        if self.normalisation is not None:
            files[NORMALISATION] = self.normalisation
        return Checkpoint(
            step=self.step,
            files=files,
            digest=self.digest,
            oldest=self.extent.oldest,
            transitions=fresh,
        )

    def is_whole(self, model: BaseAlgorithm, written: int) -> bool:
        """Whether the replay buffer still holds the experience from row `written` on."""
        begin = max(written, self.extent.oldest)
        return begin >= self.extent.end or begin >= learner_state.first_row(model)


@dataclass(frozen=True, slots=True)
class Restored:
    """A restored training; call `begin_rollout` at its first rollout to complete it."""

    step: int
    progress: TrainingProgress
    written: int
    begin_rollout: Callable[[ActingCallbacks | None], None]


def restore_training(
    model: BaseAlgorithm,
    saved: SavedCheckpoint,
    networks: ChangingNetworks | None = None,
    *,
    beat: Callable[[], object] = lambda: None,
) -> Restored:
    """Restore a checkpoint into a freshly built learner and its environments.

    Args:
        model: The fresh learner.
        saved: The checkpoint.
        networks: The networks of the training, if they change.
        beat: Called repeatedly; `Stopped` and `TimedOut` from it are passed on.

    Raises:
        CannotContinue: The checkpoint cannot be restored. The learner is unusable afterwards.
    """
    try:
        if networks is not None:
            networks.change(model, saved_stage(io.BytesIO(saved.files[MODEL])))
        return _restore(model, saved, unpack(saved.files[STATE]), beat)
    except (CannotContinue, Stopped, TimedOut):
        raise
    except (NotReplayable, RecordError) as error:
        raise CannotContinue(str(error)) from error
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise CannotContinue(f"the checkpoint does not fit this run ({reason})") from error


def _restore(
    model: BaseAlgorithm,
    saved: SavedCheckpoint,
    state: dict[str, Any],
    beat: Callable[[], object],
) -> Restored:
    assert model.env is not None
    if state["obstacle"] is not None:
        raise CannotContinue(state["obstacle"])
    load_parameters(model, io.BytesIO(saved.files[MODEL]))
    # Before the buffer, whose position follows from the restored number of steps.
    learner_state.prepare_learner(model, state["learner"])
    if model.num_timesteps != saved.step:
        raise CannotContinue(f"the checkpoint holds the state of step {model.num_timesteps}")
    learner_state.fill_buffer(
        model,
        _with_heartbeats(saved.transitions(), beat),
        state["next_row"],
        # Checkpoints of versions without such buffers lack it.
        state.get("replay", {}),
    )
    restore_vec_env(model.env, state["environments"], beat=beat)
    written = learner_state.buffer_extent(model).end

    def begin_rollout(acting: ActingCallbacks | None = None) -> None:
        if acting:
            # Its start of training may have changed the learner, as it did before the first step.
            load_parameters(model, io.BytesIO(saved.files[MODEL]))
            learner_state.prepare_learner(model, state["learner"])
            acting.restore(state[CALLBACKS])
        learner_state.restore_learner(model, state["learner"])
        learner_state.restore_logged_values(model, state.get("logged", {}))
        # Last: building, replaying and `learn` itself may have drawn random numbers before.
        restore_generators(model, state["generators"])

    progress = TrainingProgress(
        evaluations=tuple(_event_from_dict(e) for e in state["evaluations"]),
        seconds=float(state["seconds"]),
        # Checkpoints of versions that counted no tasks lack it.
        played=state.get(PLAYED, {}),
    )
    return Restored(saved.step, progress, written, begin_rollout)


def _with_heartbeats(
    stretches: Iterable[Transitions], beat: Callable[[], object]
) -> Iterator[Transitions]:
    for stretch in stretches:
        beat()
        yield stretch


def _digest(model: BaseAlgorithm, state: dict[str, Any]) -> str:
    """The sha256 of a state, which is the same for each execution of the same run."""
    # Without the times of episodes and evaluations, which differ from execution to execution.
    layers = state["environments"].get("layers", [])
    digested = {"generators": state["generators"], "layers": layers}
    if CALLBACKS in state:
        digested[CALLBACKS] = state[CALLBACKS]
    if program := state["learner"]["arrays"].get("program_state"):
        digested["program"] = program
    parts = digest(digested)
    return sha256(f"{model.num_timesteps}:{weights_digest(model)}:{parts}".encode()).hexdigest()


def _statistics(model: BaseAlgorithm) -> bytes | None:
    if model.env is None or unwrap_vec_normalize(model.env) is None:
        return None
    buffer = io.BytesIO()
    write_statistics(model.env, buffer)
    return buffer.getvalue()


def _event_to_dict(event: Evaluated) -> dict[str, Any]:
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


def _event_from_dict(as_dict: dict[str, Any]) -> Evaluated:
    returns: Sequence[float] = as_dict["returns"].tolist()
    measures = as_dict.get("measures")
    return Evaluated(
        time=as_dict["time"],
        step=as_dict["step"],
        returns=tuple(returns),
        lengths=tuple(as_dict["lengths"].tolist()),
        seconds=as_dict["seconds"],
        measures=measures and {name: tuple(v.tolist()) for name, v in measures.items()},
    )
