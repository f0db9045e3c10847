"""A restored vector of environments continues bit for bit."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from repeated_vectors import actions_for, episodes_of, play_digests, task, vector_of
from stable_baselines3.common.vec_env import VecCheckNan, VecEnv, VecTransposeImage

from rlexp.environments.gymnasium_task import GymnasiumTask
from rlexp.environments.wrappers import Wrapper
from rlexp.training import vec_env_state
from rlexp.training.environments import episode_log, subprocess_vec_env
from rlexp.training.environments.episode_log import digest
from rlexp.training.environments.subprocess_vec_env import EnvironmentDied
from rlexp.training.learner_state import pack, unpack
from rlexp.training.vec_env_state import NotReplayable, capture_vec_env, restore_vec_env

Make = Callable[[GymnasiumTask], VecEnv]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """A function that makes vectors with separate folders 1, 2, …, and closes them at the end."""
    with ExitStack() as stack:
        vectors: list[VecEnv] = []

        def make_vector(environment: GymnasiumTask) -> VecEnv:
            vectors.append(vector_of(environment, tmp_path / str(len(vectors) + 1)))
            stack.callback(vectors[-1].close)
            return vectors[-1]

        yield make_vector


def check_interruption(
    environment: GymnasiumTask, make: Make, steps_before: int, steps_after: int
) -> list[VecEnv]:
    """Check that a restored vector continues exactly like the vector that was captured.

    The captured state is packed and unpacked. After all steps, both vectors have equal states.
    """
    first, second = make(environment), make(environment)
    actions = actions_for(first, steps_before + steps_after)
    first.reset()
    play_digests(first, actions[:steps_before])
    packed_state = pack(capture_vec_env(first))
    expected = play_digests(first, actions[steps_before:])

    restore_vec_env(second, unpack(packed_state))

    assert expected == play_digests(second, actions[steps_before:])
    assert digest(capture_vec_env(first)) == digest(capture_vec_env(second))
    return [first, second]


NORMALISED = {"normalise_observations": True, "normalise_rewards": True}
VECTORS: dict[str, dict[str, Any]] = {
    "plain": {},
    "normalised": NORMALISED,
    "rewards": {"normalise_rewards": True},
    "stacked": {"frame_stack": 3},
    "both": {**NORMALISED, "frame_stack": 3},
}


NAMES = ["Walk", "Parts", "CartPole-v1", "Pendulum-v1"]
INTERRUPTIONS = [(0, 1), (3, 3), (40, 1), (0, 3), (3, 1), (40, 3)]
"""The steps before an interruption, and the number of environments."""
VECTOR_CASES = [
    pytest.param(
        name, VECTORS[vector], *INTERRUPTIONS[(i + j) % len(INTERRUPTIONS)], id=f"{name}, {vector}"
    )
    for i, name in enumerate(NAMES)
    for j, vector in enumerate(VECTORS)
]
"""Each environment in each vector, with interruptions in turn."""


@pytest.mark.parametrize(("name", "vector", "steps_before", "count"), VECTOR_CASES)
def test_vector_goes_on(
    name: str, vector: dict[str, Any], steps_before: int, count: int, make: Make
) -> None:
    """A vector is restored at its first observation, in its first and in a later episode."""
    check_interruption(task(name, count=count, **vector), make, steps_before, 30)


@pytest.mark.parametrize(
    ("name", "count", "steps_before"),
    [("GlobalWalk", 3, 40), ("GlobalWalk", 1, 3), ("Parts", 1, 40), ("CartPole-v1", 3, 3)],
)
def test_vector_in_processes_goes_on(name: str, count: int, steps_before: int, make: Make) -> None:
    """A vector in separate processes is restored with the global generators of each process."""
    settings: dict[str, Any] = {
        "kind": "subprocess",
        "count": count,
        **NORMALISED,
        "frame_stack": 2,
    }
    check_interruption(task(name, **settings), make, steps_before, 30)


STANDARD = [
    *("Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0", "LunarLander-v3"),
    *("Taxi-v4", "FrozenLake-v1", "HalfCheetah-v5", "Hopper-v5", "Ant-v5", "Humanoid-v5"),
]


@pytest.mark.parametrize("steps_before", [0, 24, 30])
@pytest.mark.parametrize("name", STANDARD)
def test_standard_environment_goes_on(name: str, steps_before: int, make: Make) -> None:
    """Standard environments are restored within an episode and before their first step."""
    check_interruption(task(name, limit=12), make, steps_before, 30)


REPEATED_RESETS = Wrapper(name="hidden_state:DrawsTwiceABeginning")
WRAPPERS = {
    "rescaled": ("Pendulum-v1", Wrapper(name="RescaleAction", arguments={"min_action": -1.0, "max_action": 1.0})),
    "clipped": ("Pendulum-v1", Wrapper(name="ClipAction")),
    "stacked": ("Pendulum-v1", Wrapper(name="FrameStackObservation", arguments={"stack_size": 3})),
    "timed": ("CartPole-v1", Wrapper(name="TimeAwareObservation")),
    "sticky": ("CartPole-v1", Wrapper(name="StickyAction", arguments={"repeat_action_probability": 0.5})),
    "reset often": ("Walk", REPEATED_RESETS),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*precision lowered")
@pytest.mark.parametrize("steps_before", [3, 50])
@pytest.mark.parametrize(("name", "wrapper"), WRAPPERS.values(), ids=WRAPPERS)
def test_wrapped_environment_goes_on(
    name: str, wrapper: Wrapper, steps_before: int, make: Make
) -> None:
    """The replay restores what wrappers store or draw in an episode."""
    check_interruption(task(name, wrapper, limit=12, count=2), make, steps_before, 30)


@pytest.mark.parametrize("name", ["ChangesActions", "OlderGenerator"])
def test_odd_environment_goes_on(name: str, make: Make) -> None:
    """Environments that change actions or draw from a Mersenne twister are restored."""
    check_interruption(task(name, count=2), make, 10, 30)


def test_environment_that_draws_from_its_space_goes_on(make: Make) -> None:
    """An environment that draws from its action space is restored with that generator."""
    check_interruption(task("DrawsFromItsSpace", kind="subprocess"), make, 10, 30)


def test_learner_may_draw_from_the_space_of_an_environment(make: Make) -> None:
    """The generator of the action space, from which the learner may draw, is restored."""
    first, second = make(task("Walk")), make(task("Walk"))
    first.action_space.seed(1)
    first.reset()
    for _ in range(10):
        first.step(np.array([first.action_space.sample()]))
    state = capture_vec_env(first)
    expected = [first.action_space.sample().tolist() for _ in range(5)]

    restore_vec_env(second, state)

    assert expected == [second.action_space.sample().tolist() for _ in range(5)]


def test_second_interruption(make: Make) -> None:
    """A restored vector can be captured and restored again in the same episode."""
    environment = task("Pendulum-v1", count=2, **NORMALISED)
    first, second, third = (make(environment) for _ in range(3))
    actions = actions_for(first, 90)
    first.reset()
    play_digests(first, actions[:30])
    restore_vec_env(second, capture_vec_env(first))
    play_digests(second, actions[30:60])
    restore_vec_env(third, capture_vec_env(second))

    expected = play_digests(first, actions[30:])

    assert expected[30:] == play_digests(third, actions[60:])


@pytest.mark.parametrize("kind", ["dummy", "subprocess"])
def test_monitor_writes_later_episodes_only(kind: str, make: Make, tmp_path: Path) -> None:
    """Replayed steps write no rows, but count in the row of their episode."""
    environment = task("CartPole-v1", count=2, kind=kind)
    first, second = make(environment), make(environment)
    actions = actions_for(first, 200)
    first.reset()
    play_digests(first, actions[:100])
    earlier_counts = [len(rows) for rows in episodes_of(tmp_path / "1")]
    restore_vec_env(second, capture_vec_env(first))
    assert [[], []] == episodes_of(tmp_path / "2")

    play_digests(first, actions[100:])
    play_digests(second, actions[100:])

    rows = episodes_of(tmp_path / "1")
    assert all(earlier_counts)
    assert [r[n:] for r, n in zip(rows, earlier_counts, strict=True)] == episodes_of(
        tmp_path / "2"
    )


def test_captured_state_is_a_copy(make: Make) -> None:
    """Later steps do not change a captured state."""
    vector = make(task("Parts", count=2, **NORMALISED, frame_stack=2))
    actions = actions_for(vector, 30)
    vector.reset()
    play_digests(vector, actions[:10])
    state = capture_vec_env(vector)
    packed_before = pack(state)

    play_digests(vector, actions[10:])

    assert packed_before == pack(state)


HIDDEN = {
    "OwnGenerator": "the reward of step 1 differs when its episode is replayed",
    "ReadsTheClock": "the observation after step 3 differs when its episode is replayed",
    "CountsEpisodes": "the reward of step 1 differs when its episode is replayed",
    "CarriesOver": "the reward of step 1 differs when its episode is replayed",
    "GlobalWalk": "the reward of step 1 differs when its episode is replayed",
    "OldState": "its random generator cannot be read (AttributeError: ",
    "EndsItself": "its episode ends at step 2 when it is replayed",
}


@pytest.mark.parametrize(("name", "reason"), HIDDEN.items(), ids=HIDDEN)
def test_hidden_state_is_refused(name: str, reason: str, make: Make) -> None:
    """The refusal of hidden state says where and how the replayed episode differs."""
    environment = task(name)
    first, second = make(environment), make(environment)
    first.reset()
    play_digests(first, actions_for(first, 17))

    with pytest.raises(NotReplayable) as error_info:
        restore_vec_env(second, capture_vec_env(first))

    assert str(error_info.value).startswith(f"environment 0: {reason}")


@pytest.mark.parametrize("kind", ["dummy", "subprocess"])
def test_counters_go_on_where_they_were(kind: str, make: Make) -> None:
    """A restored vector continues a counter, as the change after the sixtieth episode shows."""
    environment = task("Curriculum", count=2, kind=kind)
    first, second = make(environment), make(environment)
    first.reset()
    actions = actions_for(first, 270)
    play_digests(first, actions[:210])
    restore_vec_env(second, unpack(pack(capture_vec_env(first))))

    assert play_digests(first, actions[210:]) == play_digests(second, actions[210:])


LATE = {
    "RareSlips": "own of RareSlips differs after the replay",
    "LevelInAnObject": "level of LevelInAnObject differs after the replay",
}


@pytest.mark.parametrize("kind", ["dummy", "subprocess"])
@pytest.mark.parametrize(("name", "reason"), LATE.items(), ids=LATE)
def test_state_that_has_not_shown_yet_is_refused(
    name: str, reason: str, kind: str, make: Make
) -> None:
    """The refusal names the attribute that differs, before the attribute has an effect."""
    environment = task(name, count=2, kind=kind)
    first, second = make(environment), make(environment)
    first.reset()
    play_digests(first, actions_for(first, 17))

    assert (
        refusal_reason(unpack(pack(capture_vec_env(first))), second) == f"environment 0: {reason}"
    )


def refusal_reason(state: dict[str, Any], vector: VecEnv) -> str:
    """The reason why a vector cannot be restored."""
    with pytest.raises(NotReplayable) as error_info:
        restore_vec_env(vector, state)
    return str(error_info.value)


def test_the_environment_at_fault_is_named(make: Make) -> None:
    """The refusal names the environment whose replay differs."""
    environment = task("Walk", count=3)
    first = make(environment)
    first.reset()
    play_digests(first, actions_for(first, 3))
    state = capture_vec_env(first)
    state["members"][2]["rewards"][1] += 1e-9

    reason = refusal_reason(state, make(environment))

    assert reason == "environment 2: the reward of step 2 differs when its episode is replayed"


@pytest.mark.parametrize("kind", ["dummy", "subprocess"])
def test_slow_replay_is_given_up(kind: str, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay that takes longer than its limit is refused."""
    environment = task("Walk", kind=kind)
    first = make(environment)
    first.reset()
    play_digests(first, actions_for(first, 3))
    monkeypatch.setattr(vec_env_state, "REPLAY_LIMIT", -1.0)

    reason = refusal_reason(capture_vec_env(first), make(environment))

    assert "environment 0: its episode takes too long to replay: 1 of 3 steps were done" == reason


class EnoughError(Exception):
    """An error that a heartbeat raises."""


@pytest.mark.parametrize("kind", ["dummy", "subprocess"])
def test_heartbeats_continue_during_the_replay(
    kind: str, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Heartbeats continue during the replay, and may end it."""
    monkeypatch.setattr(subprocess_vec_env, "BEAT_EVERY", 0.01)
    environment = task("Sleeps", kind=kind)
    first = make(environment)
    first.reset()
    play_digests(first, actions_for(first, 3))
    state = capture_vec_env(first)
    beats: list[int] = []

    def stop() -> None:
        raise EnoughError

    restore_vec_env(make(environment), state, beat=lambda: beats.append(1))
    with pytest.raises(EnoughError):
        restore_vec_env(make(environment), state, beat=stop)
    assert len(beats) >= 3


def test_heartbeats_stop_after_the_deadline(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Heartbeats stop after the deadline, so that a hung replay is noticed."""
    for name in ("BEAT_EVERY", "CLOSE_LIMIT"):
        monkeypatch.setattr(subprocess_vec_env, name, 0.05)
    monkeypatch.setattr(vec_env_state, "REPLAY_LIMIT", 0.05)
    environment = task("Walk", kind="subprocess")
    first, second = make(environment), make(environment)
    first.reset()
    (process,) = second.unwrapped.processes  # type: ignore[attr-defined]
    os.kill(process.pid, signal.SIGSTOP)
    waker = threading.Timer(0.6, os.kill, (process.pid, signal.SIGCONT))
    waker.start()
    beats: list[float] = []

    restore_vec_env(second, capture_vec_env(first), beat=lambda: beats.append(time.monotonic()))

    waker.join()
    assert beats[-1] - beats[0] < 0.3
    assert time.monotonic() - beats[0] > 0.4


def test_a_too_long_episode_is_not_logged(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A too long episode is not logged; the next episode is logged again."""
    monkeypatch.setattr(episode_log, "MOST_NUMBERS", 12)
    first, second = make(task("Pendulum-v1", limit=20)), make(task("Pendulum-v1", limit=20))
    actions = actions_for(first, 40)
    first.reset()
    reasons = []
    for action in actions:
        first.step(action)
        reasons.append(capture_vec_env(first).get("reason"))

    too_long = "environment 0: its episode is too long to be logged"
    assert reasons == 2 * [*12 * [None], *7 * [too_long], None]
    assert first.get_attr("_past")[0].maxlen == 13
    play_digests(first, actions[:15])
    assert too_long == refusal_reason(capture_vec_env(first), second)


def test_environment_that_was_never_reset_is_refused(make: Make) -> None:
    """An environment without an episode cannot be captured."""
    vector = make(task("Walk"))

    assert "environment 0: it is not within an episode" == refusal_reason(
        capture_vec_env(vector), vector
    )


def test_faulty_environment_does_not_end_the_capture(make: Make) -> None:
    """The capture of a faulty environment gives a reason and raises no error."""
    vector = make(task("Breaks", kind="subprocess"))
    vector.reset()
    with pytest.raises(Exception, match="the motor is on fire"):
        play_digests(vector, actions_for(vector, 30))

    assert capture_vec_env(vector) == {"reason": "environment 0: it is not within an episode"}


def test_dead_process_does_not_end_the_capture(make: Make) -> None:
    """The capture of a vector with a dead process gives a reason, and the next step raises."""
    vector = make(task("Walk", kind="subprocess", count=3))
    vector.reset()
    process = vector.unwrapped.processes[1]  # type: ignore[attr-defined]
    os.kill(process.pid, signal.SIGKILL)
    process.join()

    assert "killed by signal 9" in capture_vec_env(vector)["reason"]
    with pytest.raises(EnvironmentDied):
        vector.step(actions_for(vector, 1)[0])


def test_vector_with_a_dead_process_is_closed(make: Make) -> None:
    """A vector with a dead process closes within two seconds and leaves no process."""
    vector = make(task("Walk", kind="subprocess", count=3))
    vector.reset()
    processes = vector.unwrapped.processes  # type: ignore[attr-defined]
    os.kill(processes[1].pid, signal.SIGKILL)
    with pytest.raises(EnvironmentDied):
        vector.step(actions_for(vector, 1)[0])
    start = time.monotonic()

    vector.close()

    assert time.monotonic() - start < 2
    assert not any(process.is_alive() for process in processes)


def test_process_that_does_not_end_is_killed(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that does not end when its vector closes is killed after a limit."""
    monkeypatch.setattr(subprocess_vec_env, "CLOSE_LIMIT", 0.3)
    vector = make(task("Walk", kind="subprocess"))
    (process,) = vector.unwrapped.processes  # type: ignore[attr-defined]
    os.kill(process.pid, signal.SIGSTOP)

    vector.close()

    assert -signal.SIGKILL == process.exitcode


def test_process_that_dies_in_its_replay_is_a_reason(make: Make) -> None:
    """A process that dies in its replay is a reason to start from scratch."""
    environment = task("Walk", kind="subprocess", count=2)
    first, second = make(environment), make(environment)
    first.reset()
    process = second.unwrapped.processes[1]  # type: ignore[attr-defined]
    os.kill(process.pid, signal.SIGKILL)
    process.join()

    assert "killed by signal 9 while it replayed its episode" in refusal_reason(
        capture_vec_env(first), second
    )


def test_images_may_be_transposed(make: Make) -> None:
    """A vector that transposes images is restored."""
    first, second = (VecTransposeImage(make(task("Picture"))) for _ in range(2))
    actions = actions_for(first, 20)
    first.reset()
    play_digests(first, actions[:10])
    restore_vec_env(second, capture_vec_env(first))

    assert play_digests(first, actions[10:]) == play_digests(second, actions[10:])


def test_unknown_wrapper_is_refused(make: Make) -> None:
    """A vector with an unknown wrapper is refused, because the wrapper might have state."""
    vector = VecCheckNan(make(task("Walk")))
    vector.reset()

    assert "VecCheckNan may hold state that rlexp cannot save" == refusal_reason(
        capture_vec_env(vector), vector
    )


OTHER_VECTORS = {
    "the number of environments differs from that of the checkpoint": {"count": 2},
    "the wrappers of the vector differ from those of the checkpoint": {"frame_stack": 2},
}


@pytest.mark.parametrize(("reason", "vector"), OTHER_VECTORS.items(), ids=OTHER_VECTORS)
def test_another_vector_is_refused(reason: str, vector: dict[str, Any], make: Make) -> None:
    """A captured state is refused by a vector with other settings."""
    first, other_vector = make(task("Walk")), make(task("Walk", **vector))
    first.reset()

    assert reason == refusal_reason(capture_vec_env(first), other_vector)
