"""A probe measures steps, updates and evaluations of a learner apart, in a short time."""

from pathlib import Path

import pytest
from trainings import TINY, spec_of

from rlexp.app.execution.run_process import assemble
from rlexp.errors import ConfigError
from rlexp.training import probe as probing
from rlexp.training.parts import Training
from rlexp.training.probe import Measurements, probe


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every part of a probe takes a twentieth of a second."""
    for name in ("STEPPING_SECONDS", "UPDATING_SECONDS", "EVALUATION_SECONDS"):
        monkeypatch.setattr(probing, name, 0.05)


def measured(folder: Path, *words: str) -> Measurements:
    """What a probe of these overrides measures."""
    return probe(assemble(spec_of(*words)), folder, lambda: None)


@pytest.mark.parametrize(
    "words",
    [
        TINY["ppo"],
        TINY["sac"],
        ("algorithm=dqn", "environment=cartpole", "algorithm.learning_starts=100000"),
        ("algorithm=dqn", "environment=cartpole", "algorithm.train_freq=[1,episode]"),
        ("algorithm=ppo", "environment=cartpole", "algorithm.n_steps=16384"),
        ("algorithm=recurrent_ppo", "agent=lstm", "environment=cartpole"),
        ("algorithm=trpo", "environment=cartpole", "environment.vector.count=2"),
    ],
    ids=" ".join,
)
def test_steps_updates_and_episodes_cost_time(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Each part is measured, also before learning starts and with rollouts above the time."""
    of = measured(tmp_path, *words)
    assert min(of.start, of.step, of.update, of.episode) > 0
    assert min(of.spread, of.episode_spread) >= 1
    assert of.model > 1000


def test_a_search_of_policies_has_no_updates(tmp_path: Path) -> None:
    """ARS changes its policy between episodes, so all its time belongs to steps."""
    of = measured(tmp_path, "algorithm=ars", "agent=linear", "environment=cartpole")
    assert (0.0, True) == (of.update, of.step > 0)


def test_updates_count_for_each_step(tmp_path: Path) -> None:
    """Sixteen updates a step cost several times as much as one."""
    once, often = (
        measured(tmp_path, *TINY["dqn"], "algorithm.train_freq=1", f"algorithm.gradient_steps={n}")
        for n in (1, 16)
    )
    assert often.update > 4 * once.update


def test_episodes_that_always_reach_the_limit_have_a_known_length(tmp_path: Path) -> None:
    """Pendulum ends by its time limit alone; CartPole becomes longer while a policy learns."""
    pendulum = measured(tmp_path, *TINY["sac"], "environment.max_episode_steps=5")
    cartpole = measured(tmp_path, *TINY["ppo"])
    assert 1 == pendulum.episode_spread
    assert cartpole.episode_spread > 2


def test_an_error_while_building_comes_before_the_word(tmp_path: Path) -> None:
    """A learner that cannot be built is told apart from one that fails later."""
    built: list[bool] = []
    words = (*TINY["dqn"], "algorithm.replay_buffer_kwargs={fast: true}")
    with pytest.raises(ConfigError, match=r"change algorithm\.replay_buffer_kwargs\.fast"):
        probe(assemble(spec_of(*words)), tmp_path, lambda: built.append(True))
    assert [] == built


def test_a_learner_above_the_memory_names_its_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A MemoryError while building is the user's mistake, so the run is not tried again."""
    training: Training = assemble(spec_of(*TINY["dqn"], "algorithm.buffer_size=12345"))

    def build(*_: object, **__: object) -> None:
        raise MemoryError("Unable to allocate 26 GiB")

    monkeypatch.setattr(type(training.algorithm), "build", build)
    with pytest.raises(ConfigError, match=r"26 GiB.*lower algorithm\.buffer_size \(it is 12345\)"):
        training.build(tmp_path)
