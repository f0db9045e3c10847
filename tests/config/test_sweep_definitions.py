"""Packaged sweep definitions: each composes, passes the checks and matches its name."""

import re
from functools import cache
from pathlib import Path

import pytest
from quick_parts import quick_parts
from sweeping import domains

from rlexp.config.config_files import group_options, options, packaged_root
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
def sweep(name: str, *overrides: str) -> SweepRequest:
    """A packaged definition, composed in a folder without files."""
    return compose_sweep(name, overrides, NOWHERE)


def test_packaged_definitions_are_complete() -> None:
    """PPO, DQN and SAC have definitions on their tasks, and `quick` is an example."""
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
def test_definition_passes_the_checks(name: str) -> None:
    """A packaged definition passes the checks, and its trial 0 is the default configuration."""
    request = sweep(name)
    check_sweep(request)
    assert request.plain == request.configure(request.default)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "quick"])
def test_name_matches_algorithm_and_task(name: str) -> None:
    """A definition trains the algorithm and the task in its name."""
    algorithm, task = name.removesuffix("_paper").split("_", 1)
    settings = sweep(name).plain
    assert f"rlexp.algorithms.{algorithm}.{algorithm.upper()}" == settings["algorithm"]["_target_"]
    assert re.fullmatch(TASKS[task], settings["environment"]["id"])


@pytest.mark.parametrize("name", PAPER)
def test_paper_definitions_follow_the_paper(name: str) -> None:
    """Paper definitions have ten full runs of 1e5 steps, and the seeds of the paper."""
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
def test_definition_works_with_another_tuner(name: str) -> None:
    """A packaged definition has no settings that only its own tuner or pruner accepts."""
    request = sweep(name, "tuner=random", "pruner=none")
    assert ({"_target_"}, {"_target_"}) == (set(request.tuner), set(request.pruner))


def test_ppo_space_is_that_of_the_paper() -> None:
    """The PPO space has the ranges of Eimer et al. (2023), with 0.001 for 0 in clips and norm."""
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


def test_replay_buffer_never_exceeds_the_budget() -> None:
    """The range of the buffer size ends at the steps of a run."""
    request = sweep("dqn_cartpole", "budget.steps=30000")
    assert Integer(1000, 30_000, log=True) == domains(request)["algorithm.buffer_size"]


@pytest.mark.parametrize("name", ["ppo_cartpole", "ppo_acrobot", "ppo_lunar_lander"])
def test_every_batch_fits_every_rollout(name: str) -> None:
    """No PPO trial has a minibatch that is longer than its rollout."""
    request = sweep(name)
    all_domains = domains(request)
    batches, steps = all_domains["algorithm.batch_size"], all_domains["algorithm.n_steps"]
    assert isinstance(batches, Choice)
    assert isinstance(steps, Choice)
    environments = request.plain["environment"]["vector"]["count"]
    assert max(batches.values) <= min(steps.values) * environments


def test_switches_have_the_defaults_of_the_library() -> None:
    """By default, PPO does not clip its value function and SAC learns its temperature."""
    ppo = sweep("ppo_cartpole").default
    assert False is ppo["switch.clip_range_vf"]
    assert "algorithm.clip_range_vf" not in ppo
    assert "auto" == sweep("sac_pendulum").default["switch.ent_coef"]


def test_definitions_have_descriptions() -> None:
    """Each definition and each shared space has a comment that describes it."""
    assert [] == [option for option in options("sweeps", NOWHERE) if len(option.description) < 20]
    spaces = sorted((packaged_root() / "sweeps" / "space").glob("*.yaml"))
    heads = [path.read_text().splitlines()[:2] for path in spaces]
    assert 6 == len(spaces)
    assert [] == [head for head in heads if head[0] != "# @package sweep.space"]
    assert [] == [head for head in heads if not head[1].startswith("# ")]
