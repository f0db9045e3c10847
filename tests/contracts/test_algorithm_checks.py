"""Settings that algorithms refuse, each with a one-line error that says what to do."""

import pytest
from learners import build_learner, small_algorithm
from members import member
from spaces import tiny_environments

from rlexp.algorithms.ranges import is_auto_or_auto_with_initial_value
from rlexp.errors import ConfigError

ON_POLICY = ["a2c", "maskable_ppo", "ppo", "recurrent_ppo", "trpo"]


@pytest.mark.parametrize("name", [name for name in ON_POLICY if name != "a2c"])
def test_a_batch_larger_than_the_rollout_is_refused(name: str) -> None:
    """The error for a batch larger than the rollout names the largest allowed size."""
    with pytest.raises(ConfigError, match=r"batch_size=64 .* = 16\): set batch_size to 16"):
        build_learner(small_algorithm(name, batch_size=64), count=2)


@pytest.mark.parametrize("name", ON_POLICY)
def test_one_lone_advantage_cannot_be_normalised(name: str) -> None:
    """A rollout of one step is refused only if advantages are normalised."""
    one_step = {"n_steps": 1} if name == "a2c" else {"n_steps": 1, "batch_size": 1}
    with pytest.raises(ConfigError, match="cannot be normalised"):
        build_learner(small_algorithm(name, **one_step, normalize_advantage=True))
    build_learner(small_algorithm(name, **one_step, normalize_advantage=False))


@pytest.mark.parametrize("name", ["maskable_ppo", "recurrent_ppo"])
def test_a_lone_last_step_is_refused(name: str) -> None:
    """A rollout whose last minibatch would have one step, and a NaN advantage, is refused."""
    with pytest.raises(ConfigError, match="leaves a minibatch of one step"):
        build_learner(small_algorithm(name, n_steps=9, batch_size=4))
    build_learner(small_algorithm(name, n_steps=9, batch_size=None)).learn(9)


@pytest.mark.parametrize("name", ["dqn", "sac"])
def test_training_by_episodes_needs_one_environment(name: str) -> None:
    """A train frequency in episodes needs a single environment."""
    algorithm = small_algorithm(name, train_freq=[1, "episode"])
    build_learner(algorithm).learn(11)
    with pytest.raises(ConfigError, match="counts episodes"):
        build_learner(algorithm, count=2)


def test_contradictory_numbers_are_refused() -> None:
    """ARS, TQC and TRPO refuse contradictory pairs of numbers."""
    with pytest.raises(ConfigError, match=r"n_top=3 is more than algorithm\.n_delta=2"):
        member("algorithm", "ars", n_delta=2, n_top=3)
    with pytest.raises(ConfigError, match="none of a critic's 5 quantiles: drop 4 or fewer"):
        build_learner(
            small_algorithm("tqc", top_quantiles_to_drop_per_net=5), arguments={"n_quantiles": 5}
        )
    with pytest.raises(ConfigError, match="sub_sampling_factor=8"):
        build_learner(small_algorithm("trpo", sub_sampling_factor=8))


def test_a_misfit_of_spaces_or_policy_is_named() -> None:
    """Actions, observations and policies that do not fit are refused in one line."""
    dqn, sac = small_algorithm("dqn"), small_algorithm("sac")
    with pytest.raises(ConfigError, match=r"DQN does not fit Box.* actions: it takes Discrete"):
        dqn.build("MlpPolicy", {}, tiny_environments(action="Box"), seed=0, device="cpu")
    with pytest.raises(ConfigError, match=r"MlpPolicy does not fit Dict"):
        sac.build("MlpPolicy", {}, tiny_environments("Dict"), seed=0, device="cpu")
    with pytest.raises(ConfigError, match="SAC has no MlpLstmPolicy: it takes CnnPolicy"):
        sac.build("MlpLstmPolicy", {}, tiny_environments(), seed=0, device="cpu")
    with pytest.raises(ConfigError, match=r"'n_critic'; did you mean 'n_critics'\?") as error_info:
        sac.build(
            "MlpPolicy",
            {"n_critic": 1, "ortho_init": True},
            tiny_environments(),
            seed=0,
            device="cpu",
        )
    assert "'ortho_init'" in str(error_info.value)
    assert "\n" not in str(error_info.value)


def test_an_error_of_the_library_becomes_one_line() -> None:
    """An error of the library becomes a one-line ConfigError that names the word to change."""
    with pytest.raises(ConfigError, match=r"SAC refuses this configuration") as error_info:
        build_learner(small_algorithm("sac", replay_buffer_kwargs={"fast": True}))
    assert "\n" not in str(error_info.value)
    assert str(error_info.value).endswith("; change algorithm.replay_buffer_kwargs.fast")


def test_a_buffer_that_saves_memory_cannot_handle_time_limits() -> None:
    """The two settings are refused together before a learner is built, with what to add."""
    with pytest.raises(ConfigError, match="handle_timeout_termination: false"):
        small_algorithm("sac", optimize_memory_usage=True).check(1)
    build_learner(
        small_algorithm(
            "sac",
            optimize_memory_usage=True,
            replay_buffer_kwargs={"handle_timeout_termination": False},
        )
    )


def test_the_arguments_of_the_caller_stay_as_they_were() -> None:
    """Building a learner does not change the policy arguments of the caller."""
    arguments = {"net_arch": [8]}
    build_learner(small_algorithm("sac"), arguments=arguments)
    assert arguments == {"net_arch": [8]}


@pytest.mark.parametrize(
    ("text", "expected"),
    [("auto", True), ("auto_0.1", True), ("auto_1e-2", True), ("auto_0", False), ("car", False)],
)
def test_automatic_temperatures(text: str, expected: bool) -> None:
    """An automatic temperature is `auto`, or `auto_` with a positive initial value."""
    assert expected == is_auto_or_auto_with_initial_value(text)
