"""Our definitions of sweeps: each composes, is allowed, and is what its name says."""

import re
from functools import cache
from pathlib import Path

import pytest
from quick_parts import quick_parts
from sweeping import domains

from rlexp.config.options import options
from rlexp.config.sources import group_options, packaged_root
from rlexp.config.sweep import SweepRequest, compose_sweep
from rlexp.config.sweep_checks import check_sweep
from rlexp.protocol.space import Choice, Integer, Real

quick = pytest.fixture(autouse=True)(quick_parts)

NOWHERE = Path("nowhere")
NAMES = group_options("sweeps", NOWHERE)
PAPER = [name for name in NAMES if name.endswith("_paper")]
TASKS = {
    "cartpole": "CartPole-v1",
    "acrobot": "Acrobot-v1",
    "pendulum": "Pendulum-v1",
    "lunar_lander": "LunarLander(Continuous)?-v3",
}


@cache
def sweep(name: str, *words: str) -> SweepRequest:
    """A definition of ours, in a folder without files."""
    return compose_sweep(name, words, NOWHERE)


def test_there_are_definitions_for_algorithms_and_tasks() -> None:
    """PPO, DQN and SAC with our spaces and the paper's, and one to begin with."""
    assert NAMES == [
        "dqn_acrobot",
        "dqn_acrobot_paper",
        "dqn_cartpole",
        "dqn_lunar_lander",
        "ppo_acrobot",
        "ppo_acrobot_paper",
        "ppo_cartpole",
        "ppo_lunar_lander",
        "quick",
        "sac_lunar_lander",
        "sac_pendulum",
        "sac_pendulum_paper",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_definition_is_allowed(name: str) -> None:
    """It composes; its ends and choices build; trial 0 is the configuration that it begins with."""
    request = sweep(name)
    check_sweep(request)
    assert request.plain == request.configure(request.default)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "quick"])
def test_name_says_algorithm_and_task(name: str) -> None:
    """Nothing else is trained on anything else."""
    algorithm, task = name.removesuffix("_paper").split("_", 1)
    plain = sweep(name).plain
    assert f"rlexp.algorithms.{algorithm}.{algorithm.upper()}" == plain["algorithm"]["_target_"]
    assert re.fullmatch(TASKS[task], plain["environment"]["id"])


@pytest.mark.parametrize("name", PAPER)
def test_paper_is_followed(name: str) -> None:
    """Ten full runs of 1e5 steps, every trial on five seeds, ten test seeds, and no selection."""
    request = sweep(name)
    plan, seeds = request.plan, request.plain["seeds"]
    assert ("fixed", 10, 100_000, 10) == (
        plan.allocation,
        plan.full_runs,
        request.plain["budget"]["steps"],
        request.plain["budget"]["final_episodes"],
    )
    assert (5, 0, 10) == (seeds["tuning"], seeds["selection"], seeds["test"])
    assert request.tuner["_target_"].startswith("rlexp.tuners.dehb.")


@pytest.mark.parametrize("name", NAMES)
def test_definition_takes_another_tuner(name: str) -> None:
    """No definition holds settings that only its own tuner or pruner has."""
    request = sweep(name, "tuner=random", "pruner=none")
    assert ({"_target_"}, {"_target_"}) == (set(request.tuner), set(request.pruner))


def test_space_of_the_paper_is_the_papers() -> None:
    """PPO's ranges of Eimer et al. 2023; a clip range or norm of 0 is none that can be built."""
    assert {
        "algorithm.learning_rate": Real(1e-6, 0.1, "log"),
        "algorithm.ent_coef": Real(0.0, 0.5),
        "algorithm.n_epochs": Integer(5, 20),
        "algorithm.batch_size": Choice((16, 32, 64, 128)),
        "algorithm.n_steps": Choice((256, 512, 1024, 2048, 4096)),
        "algorithm.gae_lambda": Real(0.8, 0.9999),
        "algorithm.clip_range": Real(0.001, 0.5),
        "algorithm.clip_range_vf": Real(0.001, 0.5),
        "algorithm.normalize_advantage": Choice((True, False)),
        "algorithm.vf_coef": Real(0.0, 1.0),
        "algorithm.max_grad_norm": Real(0.001, 1.0),
    } == domains(sweep("ppo_acrobot_paper"))


def test_replay_never_exceeds_the_budget() -> None:
    """The range of the buffer follows the steps of a run."""
    request = sweep("dqn_cartpole", "budget.steps=30000")
    assert Integer(1000, 30_000, log=True) == domains(request)["algorithm.buffer_size"]


@pytest.mark.parametrize("name", ["ppo_cartpole", "ppo_acrobot", "ppo_lunar_lander"])
def test_every_batch_fits_every_rollout(name: str) -> None:
    """No trial of PPO is refused for a minibatch that is longer than its rollout."""
    request = sweep(name)
    found = domains(request)
    batches, steps = found["algorithm.batch_size"], found["algorithm.n_steps"]
    assert isinstance(batches, Choice)
    assert isinstance(steps, Choice)
    environments = request.plain["environment"]["vector"]["count"]
    assert max(batches.values) <= min(steps.values) * environments


def test_switches_have_the_defaults_of_the_library() -> None:
    """PPO clips no value, SAC learns its temperature."""
    ppo = sweep("ppo_cartpole").default
    assert False is ppo["switch.clip_range_vf"]
    assert "algorithm.clip_range_vf" not in ppo
    assert "auto" == sweep("sac_pendulum").default["switch.ent_coef"]


def test_definitions_are_listed_with_what_they_are() -> None:
    """Each begins with a comment, shared spaces too."""
    assert [] == [one for one in options("sweeps", NOWHERE) if len(one.description) < 20]
    spaces = sorted((packaged_root() / "sweeps" / "space").glob("*.yaml"))
    firsts = [path.read_text().splitlines()[:2] for path in spaces]
    assert 6 == len(spaces)
    assert [] == [first for first in firsts if first[0] != "# @package sweep.space"]
    assert [] == [first for first in firsts if not first[1].startswith("# ")]
