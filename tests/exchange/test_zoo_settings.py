"""Hyperparameters of rl-baselines3-zoo are parsed and translated or refused, never executed."""

import math
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlexp.exchange.importers.zoo_settings import (
    ClassName,
    NotLiteral,
    parse_literal,
    translate_zoo_settings,
)

PPO = ("learning_rate", "n_steps", "batch_size", "gamma", "clip_range", "clip_range_vf", "use_sde")
SAC = ("learning_rate", "buffer_size", "train_freq", "ent_coef", "action_noise", "n_steps",
       "replay_buffer_kwargs", "batch_size")  # fmt: skip
STEPS = {"n_timesteps": 1e6}
HOSTILE = [
    "__import__('os').system('touch pwned')",
    "dict(a=__import__('os').system('touch pwned'))",
    "[open('pwned', 'w')]",
    "(lambda: 1)()",
    "dict(**__builtins__)",
    "dict([('a', 1)])",
    "[x for x in (1,)]",
    "f'{1}'",
    "1 if 1 else 2",
    "{1: 2}",
    "{**{}}",
    "2 ** 9999999999",
    "b'a'",
    "1j",
    "1e999",
    "-1e999",
    "-True",
    "-'a'",
    "nn.ReLU()",
    "().__class__",
    "a[0].b",
    "dict(net_arch=[64",
    "",
    "import os",
    "-" * 1500 + "1",
    "(" * 1500,
    "[" * 150 + "]" * 150,
    "1," * 1500,
    "\0",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_code_is_no_literal(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code is refused and not executed, in any nesting."""
    monkeypatch.chdir(tmp_path)
    if text.startswith("[["):
        assert isinstance(parse_literal(text), list)
    else:
        with pytest.raises(NotLiteral):
            parse_literal(text)
        settings, troubles = translate_zoo_settings({**STEPS, "policy_kwargs": text}, PPO)
        assert ["policy_kwargs"] == list(troubles)
        assert not any(key.startswith("agent") for key in settings)
    assert [] == list(tmp_path.iterdir())


@given(st.text(max_size=40))
def test_any_text_is_a_literal_or_refused(text: str) -> None:
    """Any text gives a value or a `NotLiteral` error."""
    with suppress(NotLiteral):
        parse_literal(text)


def test_literals_are_read() -> None:
    """Mappings of both forms, lists, tuples, signed numbers and class names are read."""
    value = parse_literal("dict(a=[-1, 2.5, (True, None)], b={'c': 'd'}, e=nn.ReLU)")
    assert {"a": [-1, 2.5, [True, None]], "b": {"c": "d"}, "e": ClassName("nn.ReLU")} == value


@pytest.mark.parametrize(
    ("entry", "algorithm_settings", "expected"),
    [
        ({"n_timesteps": 20_000.0}, PPO, {"budget.steps": 20_000, "budget.evaluation_every": 1000}),
        ({"n_envs": 8}, PPO, {"environment.vector.count": 8}),
        ({"batch_size": "1_024"}, PPO, {"algorithm.batch_size": 1024}),
        ({"frame_stack": 4}, PPO, {"environment.vector.frame_stack": 4}),
        ({"policy": "MlpPolicy"}, PPO, {}),
        ({"policy": "CnnLstmPolicy"}, PPO, {"agent": "lstm", "agent.input": "cnn"}),
        (
            {"normalize": True},
            PPO,
            {
                "environment.vector.normalise_observations": True,
                "environment.vector.normalise_rewards": True,
            },
        ),
        (
            {"normalize": "{'norm_obs': False, 'clip_reward': 5.0}"},
            PPO,
            {
                "environment.vector.normalise_observations": False,
                "environment.vector.normalise_rewards": True,
                "environment.vector.clip_rewards": 5.0,
            },
        ),
        (
            {"learning_rate": "lin_2.5e-4", "clip_range_vf": -1, "clip_range": "0.2"},
            PPO,
            {
                "algorithm.learning_rate": {"shape": "linear", "initial": 2.5e-4},
                "algorithm.clip_range_vf": None,
                "algorithm.clip_range": 0.2,
            },
        ),
        (
            {"policy_kwargs": "dict(log_std_init=-2, ortho_init=False, activation_fn=nn.ReLU,\n"
             "  net_arch=dict(pi=[256], vf=[64, 64]))"},
            PPO,
            {
                "agent.policy_kwargs.log_std_init": -2,
                "agent.ortho_init": False,
                "agent.activation": "relu",
                "agent.actor": [256],
                "agent.critic": [64, 64],
            },
        ),
        (
            {"policy_kwargs": "dict(net_arch=[dict(pi=[8], vf=[9])], lstm_hidden_size=64)"},
            PPO,
            {"agent.actor": [8], "agent.critic": [9], "agent.lstm_hidden_size": 64},
        ),
        ({"policy_kwargs": {"net_arch": [400, 300]}}, SAC, {"agent.network": [400, 300]}),
        (
            {"noise_type": "ornstein-uhlenbeck", "noise_std": 0.5},
            SAC,
            {"algorithm.action_noise": {"kind": "ornstein_uhlenbeck", "sigma": 0.5}},
        ),
        ({"train_freq": [1, "episode"], "ent_coef": "auto_0.1"}, SAC,
         {"algorithm.train_freq": [1, "episode"], "algorithm.ent_coef": "auto_0.1"}),
        ({"replay_buffer_kwargs": "dict(handle_timeout_termination=True)"}, SAC,
         {"algorithm.replay_buffer_kwargs": {"handle_timeout_termination": True}}),
        ({"env_kwargs": "dict(gravity=5)"}, PPO, {"environment.arguments.gravity": 5}),
        (
            {"env_wrapper": [{"gymnasium.wrappers.time_limit.TimeLimit": {"max_episode_steps": 5}},
                             "stable_baselines3.common.atari_wrappers.AtariWrapper"]},
            PPO,
            {"environment.wrappers": [
                {"name": "TimeLimit", "arguments": {"max_episode_steps": 5}},
                {"name": "stable_baselines3.common.atari_wrappers:AtariWrapper", "arguments": {}},
            ]},
        ),
        (
            {"n_steps": 8, "batch_size": 256, "n_envs": 2},
            PPO,
            {"algorithm.n_steps": 8, "algorithm.batch_size": 16, "environment.vector.count": 2},
        ),
    ],
)  # fmt: skip
def test_each_key_becomes_the_equivalent_setting(
    entry: dict[str, Any], algorithm_settings: tuple[str, ...], expected: dict[str, Any]
) -> None:
    """Each key of the zoo becomes the equivalent setting."""
    settings, troubles = translate_zoo_settings({**STEPS, **entry}, algorithm_settings)
    compared = {k: v for k, v in settings.items() if k in expected or "n_timesteps" not in entry}
    compared = compared if "n_timesteps" in entry else {
        k: v for k, v in compared.items() if not k.startswith("budget.")
    }  # fmt: skip
    assert ({}, expected) == (troubles, compared)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"n_timesteps": "many"}, "'many' is not a number"),
        ({"n_timesteps": 1.5}, "1.5 is not a whole number"),
        ({"n_envs": True}, "True is not a number"),
        ({"gamma": "1" + "0" * 400}, "is not a finite number"),
        ({"gamma": 10**400}, "is not a number, a word"),
        ({"gamma": -math.inf}, "is not a number, a word"),
        ({"learning_rate": 10**400}, "is not a finite number"),
        ({"gamma": "1__0"}, "'1__0' is not a number"),
        ({"n_timesteps": "10_"}, "'10_' is not a number"),
        ({"gamma": "__import__('os').system('x')"}, "is not a number, a word, a list"),
        (
            {"gamma": {"python": "object/apply:os.system", "value": ["x"]}},
            "is not a number, a word, a list",
        ),
        ({"learning_rate": "name:os.system"}, "is not a number"),
        ({"learning_rate": "lin_lin_1"}, "'lin_1' is not a number"),
        ({"n_step": 5}, "did you mean 'n_steps'?"),
        ({"callback": "a.B"}, "the callback 'a.B' is code that acts"),
        ({"callback": {"a.StopTrainingOnRewardThreshold": {}}}, "None is not a number"),
        ({"replay_buffer_class": "HerReplayBuffer"}, "only the library's default buffer"),
        ({"policy": "MyPolicy"}, "'MyPolicy' is not one of MlpPolicy"),
        ({"normalize": "dict(gamma=0.9)"}, "'gamma' of the normalisation"),
        ({"noise_type": "pink", "noise_std": 1}, "noise takes noise_std"),
        ({"env_wrapper": "os.system"}, "the wrapper 'os.system' is not in"),
        ({"env_wrapper": "gymnasium.wrappersX.Y"}, "is not in"),
        ({"policy_kwargs": "dict(activation_fn=os.system)"}, "os.system is not one of nn.Tanh"),
        (
            {"policy_kwargs": "dict(optimizer_class=RMSpropTFLike)"},
            "RMSpropTFLike is not a number, a word, a list",
        ),
        ({"policy_kwargs": "dict(net_arch=nn)"}, "nn is not a list of layers"),
        ({"policy_kwargs": [1]}, "[1] is not a mapping"),
        ({"<<": 3}, "neither the algorithm nor the environment has this setting"),
    ],
)
def test_unsupported_values_are_refused_under_their_key(
    entry: dict[str, Any], message: str
) -> None:
    """Each refused key of an entry is reported with its reason."""
    _, troubles = translate_zoo_settings({**STEPS, **entry}, PPO)
    assert message in troubles[next(iter(entry))]


def test_callbacks_become_what_rlexp_does() -> None:
    """A threshold becomes `budget.stop_at`; what only logs, saves or shows becomes nothing."""
    entry = {
        **STEPS,
        "callback": [
            {
                "stable_baselines3.common.callbacks.StopTrainingOnRewardThreshold": {
                    "reward_threshold": -200
                }
            },
            "rl_zoo3.callbacks.RawStatisticsCallback",
        ],
    }
    settings, troubles = translate_zoo_settings(entry, PPO)
    assert {} == troubles
    assert settings["budget.stop_at"] == -200
    assert not any("callback" in key for key in settings)


def test_steps_are_needed() -> None:
    """An entry without `n_timesteps` is refused."""
    assert ["n_timesteps"] == list(translate_zoo_settings({}, PPO)[1])
