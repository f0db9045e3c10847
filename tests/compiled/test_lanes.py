"""The lane of a run, its company, and how its rollouts are divided among calls change no bit."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from off_policy_learners import learner_of

from rlexp.algorithms.compiled.conductor import conduct
from rlexp.algorithms.compiled.runtime import CONDUCTOR

LANES = 3
ROLLOUTS = 12
TOTAL = 10_000
SETTINGS = {
    "ppo": ("environment=cartpole", "algorithm.n_steps=16", "algorithm.batch_size=32"),
    "dqn": ("environment=cartpole", "algorithm.learning_starts=8", "algorithm.buffer_size=32"),
    "sac": ("environment=pendulum", "algorithm.learning_starts=8", "algorithm.buffer_size=32"),
}
"""Small settings of every compiled algorithm; the replay buffers wrap around."""
SMALL = ("environment.vector.count=2", "agent.network=[16]")


@pytest.fixture(params=SETTINGS)
def words(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """The words of a small training of each algorithm."""
    return (f"algorithm=compiled_{request.param}", *SETTINGS[request.param], *SMALL)


@contextmanager
def connected(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A function that gives the next run a connection to one conductor."""
    ours, theirs = socket.socketpair()
    thread = threading.Thread(target=conduct, args=(theirs,), daemon=True)
    thread.start()
    ends: list[socket.socket] = []

    def connect() -> None:
        mine, its = socket.socketpair()
        socket.send_fds(ours, [b"."], [its.fileno()])
        its.close()
        ends.append(mine)
        monkeypatch.setenv(CONDUCTOR, str(mine.fileno()))

    try:
        yield connect
    finally:
        monkeypatch.delenv(CONDUCTOR, raising=False)
        ours.close()
        for end in ends:
            end.close()
        thread.join(60)
        theirs.close()


def advanced(learner: Any, program: Any, chunks: list[int]) -> str:
    """The sha256 of the weights and of the replay buffer of a learner after rollouts in some chunks."""
    state = learner._state(program)
    for rollouts in chunks:
        state, _ = learner._advance(program, state, rollouts, TOTAL)
        learner.num_timesteps += rollouts * program.size
    digest = sha256()
    for parameter in learner.policy.state_dict().values():
        digest.update(parameter.numpy().tobytes())
    buffer = getattr(learner, "replay_buffer", None)
    if buffer is not None:
        for name in ("observations", "next_observations", "actions", "rewards", "dones"):
            digest.update(getattr(buffer, name).tobytes())
    return digest.hexdigest()


def alone(words: tuple[str, ...], folder: Path, chunks: list[int]) -> str:
    """The digest of a learner whose lanes this process has."""
    learner = learner_of(*words, folder=folder)
    learner._vector().lanes = LANES
    return advanced(learner, learner._shared(learner._program()), chunks)


def test_chunks_change_no_bit_of_a_lane(words: tuple[str, ...], tmp_path: Path) -> None:
    """Twelve rollouts in one call, and in calls of five, one and six, have the same bits."""
    assert alone(words, tmp_path, [ROLLOUTS]) == alone(words, tmp_path, [5, 1, 6])


def test_company_changes_no_bit_of_a_lane(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three runs whose calls have other lengths end as each of them does without company."""
    expected = alone(words, tmp_path, [ROLLOUTS])
    learners = [learner_of(*words, folder=tmp_path) for _ in range(LANES)]
    # The first lanes have other runs, so that the one that is compared has the last lane.
    for number, learner in enumerate(learners[:-1]):
        learner.seed = 100 + number
    digests: dict[int, str] = {}
    with connected(monkeypatch) as connect:
        programs = []
        for learner in learners:
            connect()
            learner._vector().lanes = LANES
            programs.append(learner._shared(learner._program()))

        def train(number: int, chunks: list[int]) -> None:
            digests[number] = advanced(learners[number], programs[number], chunks)

        threads = [
            threading.Thread(target=train, args=(number, chunks))
            for number, chunks in enumerate(([3, 9], [7, 5], [4, 4, 4]))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(300)
    assert expected == digests[LANES - 1]
    assert LANES == len(set(digests.values()))


def test_a_run_goes_on_without_its_conductor(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the conductor is gone, a run continues from its last call, to the same bits."""
    expected = alone(words, tmp_path, [ROLLOUTS])
    learner = learner_of(*words, folder=tmp_path)
    learner._vector().lanes = LANES
    with connected(monkeypatch) as connect:
        connect()
        program = learner._shared(learner._program())
        advanced(learner, program, [5])
    state = learner._state(program)
    # What the learner passes is not what the lane held.
    state, _ = learner._advance(program, state, 7, TOTAL)
    del state
    learner.num_timesteps += 7 * program.size
    assert expected == advanced(learner, program, [])
