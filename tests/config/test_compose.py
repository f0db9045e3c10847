"""Composition: every kind of override, and errors about wrong overrides."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from composing import MY_ENVIRONMENT, compose_one, refusal, value_at
from quick_parts import quick_yaml
from samples import write_tree

from rlexp.config.compose import ComposedConfiguration, compose

quick = pytest.fixture(autouse=True)(quick_yaml)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A study without files."""
    return tmp_path


def test_defaults_are_the_documented_ones(folder: Path) -> None:
    """The default is PPO on CartPole with five test seeds and no tracker."""
    settings = compose_one(folder)
    assert "rlexp.algorithms.ppo.PPO" == value_at(settings, "algorithm._target_")
    assert "CartPole-v1" == value_at(settings, "environment.id")
    assert {"root": 0, "tuning": 3, "selection": 0, "test": 5} == settings["seeds"]
    assert ("test", "missing", None, {}) == (
        settings["phase"],
        settings["failures"],
        settings["experiment"],
        settings["tracker"],
    )


SETTINGS = (
    {
        "experiment=mine": ("experiment", "mine"),
        "algorithm=a2c": ("algorithm._target_", "rlexp.algorithms.a2c.A2C"),
        "environment=acrobot": ("environment.id", "Acrobot-v1"),
        "agent=cnn": ("agent._target_", "rlexp.agents.cnn.CNN"),
        "budget.steps=1e5": ("budget.steps", 100000.0),
        "budget.evaluation_every=null": ("budget.evaluation_every", None),
        "budget.evaluation_episodes=3": ("budget.evaluation_episodes", 3),
        "budget.evaluation_deterministic=false": ("budget.evaluation_deterministic", False),
        "budget.final_episodes=7": ("budget.final_episodes", 7),
        "budget.score=auc": ("budget.score", "auc"),
        "budget.checkpoint_every=5": ("budget.checkpoint_every", 5),
        "budget.timeout=1.5": ("budget.timeout", 1.5),
        "seeds.root=7": ("seeds.root", 7),
        "seeds.tuning=2": ("seeds.tuning", 2),
        "seeds.selection=[1]": ("seeds.selection", [1]),
        "seeds.test=[4,2]": ("seeds.test", [4, 2]),
        "executor=local": ("executor._target_", "rlexp.executors.local.Local"),
        "compute.threads=2": ("compute.threads", 2),
        "compute.device=cuda": ("compute.device", "cuda"),
        "failures=worst": ("failures", "worst"),
        "phase=tuning": ("phase", "tuning"),
    },
    {
        "experiment=null": ("experiment", None),
        "algorithm.learning_rate=1e-3": ("algorithm.learning_rate", 0.001),
        "environment.id=module:Mine-v0": ("environment.id", "module:Mine-v0"),
        "environment.imports=[a,b.c]": ("environment.imports", ["a", "b.c"]),
        "environment.arguments.gravity=9.8": ("environment.arguments", {"gravity": 9.8}),
        "environment.wrappers=[{name:TimeLimit}]": (
            "environment.wrappers",
            [{"name": "TimeLimit"}],
        ),
        "environment.vector.count=4": ("environment.vector.count", 4),
        "agent.network=[64,32]": ("agent.network", [64, 32]),
        "agent.policy_kwargs.use_sde=true": ("agent.policy_kwargs", {"use_sde": True}),
        "budget.steps=100_000": ("budget.steps", 100000),
        "executor.workers=2": ("executor.workers", 2),
        "++algorithm.gamma=0.5": ("algorithm.gamma", 0.5),
        "+algorithm.later=1": ("algorithm.later", 1),
        "environment.name=${budget.steps}": ("environment.name", 100000),
    },
    {
        "algorithm.learning_rate={shape:linear,initial:0.1}": (
            "algorithm.learning_rate.initial",
            0.1,
        ),
        "+environment.arguments.gravity=9.8": ("environment.arguments", {"gravity": 9.8}),
        "experiment='a b'": ("experiment", "a b"),
    },
    {
        "environment.arguments={a:{b:1}}": ("environment.arguments", {"a": {"b": 1}}),
    },
    {
        "+benchmark=cartpole": ("algorithm.n_steps", 32),
    },
    {
        "+benchmark=cartpole": ("environment.vector.count", 8),
    },
)
"""Overrides that fit together, each with the key that it sets and the expected value."""


@pytest.mark.parametrize("overrides", SETTINGS, ids=range(len(SETTINGS)))
def test_override_sets_its_value(
    folder: Path, overrides: Mapping[str, tuple[str, object]]
) -> None:
    """An override in Hydra's grammar sets its key, with the type that was written."""
    settings = compose_one(folder, *overrides)
    actual = {word: repr(value_at(settings, key)) for word, (key, _) in overrides.items()}
    assert {word: repr(expected) for word, (_, expected) in overrides.items()} == actual


@pytest.mark.parametrize(
    ("word", "key"),
    [
        ("~algorithm.gamma", "algorithm.gamma"),
        ("~budget.steps", "budget.steps"),
        ("~seeds", "seeds"),
        ("~agent", "agent"),
        ("~agent=mlp", "agent"),
    ],
)
def test_tilde_removes_a_key(folder: Path, word: str, key: str) -> None:
    """`~` removes a key or a whole group from the configuration."""
    with pytest.raises(KeyError):
        value_at(compose_one(folder, word), key)


def test_override_wins_over_benchmark(folder: Path) -> None:
    """An override of the command line wins over the values of a benchmark."""
    settings = compose_one(
        folder, "+benchmark=cartpole", "algorithm.n_steps=64", "environment=acrobot"
    )
    assert (64, "Acrobot-v1") == (
        value_at(settings, "algorithm.n_steps"),
        value_at(settings, "environment.id"),
    )


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["algoritm=ppo"],
            "unknown key 'algoritm'; did you mean 'algorithm=ppo'? (there are: agent,",
        ),
        (
            ["algorithm=ppoo"],
            "no algorithm=ppoo; did you mean 'ppo'? (there are: compiled_ppo,",
        ),
        (["environment=cartpol"], "no environment=cartpol; did you mean 'cartpole'?"),
        (
            ["callback.resets.every=5"],
            "callback has no 'resets': choose it in the same command, callback=resets",
        ),
        (
            ["agent=xyz"],
            "there is no agent=xyz (there are: cnn, gbrl, linear, lstm, mlp, multi_input)",
        ),
        (
            ["callback=mine.Patience"],
            (
                "resets, schedule); for a class, type +callback.patience._target_=mine.Patience "
                "--allow-import mine"
            ),
        ),
        (["agent=mine.Net"], "; a class is chosen by a file conf/agent/net.yaml: docs/guides/"),
        (["environment=foo/bar"], "there is no environment=foo/bar (there are: "),
        (
            ["algorithm=recipe/foo"],
            (
                "there is no algorithm=recipe/foo; did you mean 'recipe/trl_rloo'? (there are: "
                "recipe/benchmarl_mappo,"
            ),
        ),
        (["algorithm=recipe/foo"], "to see all: rlexp config list algorithm"),
        (["+benchmark=cartpol"], "there is no benchmark=cartpol; did you mean 'cartpole'?"),
        (["+benchmrk=cartpole"], "there is no group 'benchmrk'; did you mean 'benchmark'?"),
        (["+foo=1"], "there is no group 'foo' (there are: agent, algorithm, benchmark,"),
        (
            ["algorithm.learning_rat=1"],
            "did you mean 'algorithm.learning_rate=1'? (algorithm has:",
        ),
        (
            ["algorithm.learning_rat=1,2"],
            "did you mean 'algorithm.learning_rate=1'? (algorithm has: learning_rate,",
        ),
        (
            ["budget.step=1"],
            "unknown key 'budget.step'; did you mean 'budget.steps=1'? (budget has:",
        ),
        (["seeds.tests=1"], "did you mean 'seeds.test=1'?"),
        (["a.b.c=1"], "unknown key 'a.b.c' (there are:"),
        (["a.b.c=1,2"], "unknown key 'a.b.c' (there are:"),
        (["algorithm.gamma.x=1"], "algorithm.gamma has no key 'x'; write +algorithm.gamma.x=…"),
        (["algorithm.gamma.x=1,2"], "algorithm.gamma has no key 'x'; write +algorithm.gamma.x=…"),
        (["algorithm=ppo,ppoo"], "there is no algorithm=ppoo; did you mean 'ppo'?"),
        (["~foo"], "'foo' does not exist"),
        (["~algorithm.foo"], "'algorithm.foo' does not exist"),
        (["foo"], "cannot read 'foo': write foo=VALUE"),
        (["--steps=5"], "unknown key '--steps': type budget.steps=5"),
        (["a=[1"], "cannot read 'a=[1'"),
        (["a={b"], "cannot read 'a={b'"),
        (["a='b"], 'cannot read "a=\'b"'),
        ([""], "cannot read ''"),
        (["=1"], "must be a string"),
        (["algorithm.gamma=${nothing}"], "algorithm.gamma: Interpolation key 'nothing' not found"),
        (["algorithm.gamma=${algorithm.gamma}"], "algorithm.gamma: Recursive"),
        (["algorithm.gamma=${nothing:1}"], "nothing"),
        (
            ["algorithm.gamma=???"],
            "algorithm.gamma has no value; give it one with algorithm.gamma=…",
        ),
        (
            ["environment=gymnasium"],
            "environment.id has no value; give it one with environment.id=…",
        ),
        (["dataset=minari", "dataset.idd=x"], "did you mean 'dataset.id=x'?"),
        (["algorithm=glob(*)"], "a grid needs a list of values"),
        (["algorithm.gamma=interval(0,1)"], "a grid needs a list of values"),
        (["tracker=[wandbb]"], "there is no tracker=wandbb; did you mean 'wandb'?"),
        (
            ["tracker=wandb,mlflow"],
            "several trackers must be a list: write tracker=[wandb,mlflow]",
        ),
        (["~tracker"], "tracker=[mlflow,wandb], or tracker=[] for none"),
        (["+budget.steps=5"], "remove + prefix: 'budget.steps=5'"),
    ],
)
def test_wrong_override_is_reported_in_one_line(
    folder: Path, overrides: list[str], message: str
) -> None:
    """The error for a wrong override names the wrong text and what is allowed."""
    assert message in refusal(folder, *overrides)


def test_composition_leaves_no_state(folder: Path) -> None:
    """A composition, also a failed one, does not change later compositions."""
    before = compose([], folder)
    refusal(folder, "algorithm=nothing")
    refusal(folder, "nothing=1")
    write_tree(folder / "other", {"conf/environment/cartpole.yaml": MY_ENVIRONMENT})
    compose([], folder / "other")
    after = compose([], folder)
    assert before == after
    assert [ComposedConfiguration(before[0].plain, ())] == after


def test_composed_values_are_plain_python(folder: Path) -> None:
    """A composed configuration has no objects of Hydra or OmegaConf."""

    def types_in(value: Any) -> set[type]:
        if isinstance(value, dict):
            items = [*value.values()]
        else:
            items = value if isinstance(value, list) else []
        return {type(value)}.union(*map(types_in, items))

    expected = {dict, list, str, int, float, bool, type(None)}
    assert expected >= types_in(compose_one(folder, "agent.network=[1]"))
    assert not re.search("DictConfig|ListConfig", repr(compose_one(folder)))
