"""Hyperparameters of rl-baselines3-zoo as settings of ours: every key, or none."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from math import isfinite
from typing import Any

from rlexp.errors import did_you_mean
from rlexp.exchange.importers.literals import ClassName, NotLiteral, parse_literal

NUMBER = re.compile(r"[+-]?(\d[\d_]*\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
PYTHON = frozenset({"python", "value"})
"""The keys of what stands for an object that a tag of Python asks for."""


class Untranslatable(ValueError):  # noqa: N818
    """A value means something that a configuration cannot say; says what."""


def plain(value: Any) -> Any:
    """A value of the algorithm: a number, `auto` and the like, or a list or mapping of such."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, Mapping) and set(value) != PYTHON:
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, str):
        if NUMBER.fullmatch(value):
            return number(value)
        if re.fullmatch(r"[A-Za-z]\w*(\.\d+)?", value, re.ASCII):
            return value
        if value.startswith(("dict(", "{", "[", "(")):
            return plain(parse_literal(value))
    raise Untranslatable(f"{shown_value(value)} is no plain value")


def mapping(value: Any) -> dict[str, Any]:
    """A mapping, or a text that is one in Python."""
    found = parse_literal(value) if isinstance(value, str) else value
    if not isinstance(found, Mapping) or set(found) == PYTHON:
        raise Untranslatable(f"{shown_value(value)} is no mapping")
    return dict(found)


def layers(value: Any) -> list[int]:
    """Units of layers."""
    if not isinstance(value, list):
        raise Untranslatable(f"{shown_value(value)} is no list of layers")
    return [whole(units) for units in value]


def number(value: Any) -> float:
    """A finite number, or a text that is one."""
    text = isinstance(value, str) and NUMBER.fullmatch(value)
    if not (text or isinstance(value, int | float)) or isinstance(value, bool):
        raise Untranslatable(f"{shown_value(value)} is no number")
    found = float(value)
    if not isfinite(found):
        raise Untranslatable(f"{shown_value(value)} is no finite number")
    return found


def whole(value: Any) -> int:
    """A whole number, which may be written with an exponent."""
    found = number(value)
    if not found.is_integer():
        raise Untranslatable(f"{shown_value(value)} is no whole number")
    return int(found)


def shown_value(value: Any) -> str:
    """A value as errors show it."""
    if isinstance(value, ClassName):
        return value.name
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"


EVALUATIONS = 20
"""How often a run is evaluated: the zoo's files do not say."""
ALGORITHMS = {"ppo_lstm": "recurrent_ppo"}
"""What the zoo calls otherwise than we do."""
POLICIES: Mapping[str, Mapping[str, Any]] = {
    "MlpPolicy": {},
    "CnnPolicy": {"agent": "cnn"},
    "MultiInputPolicy": {"agent": "multi_input"},
    "LinearPolicy": {"agent": "linear"},
    "MlpLstmPolicy": {"agent": "lstm"},
    "CnnLstmPolicy": {"agent": "lstm", "agent.input": "cnn"},
    "MultiInputLstmPolicy": {"agent": "lstm", "agent.input": "multi_input"},
}
ACTIVATIONS = {
    "Tanh": "tanh",
    "ReLU": "relu",
    "ELU": "elu",
    "LeakyReLU": "leaky_relu",
    "SiLU": "silu",
    "GELU": "gelu",
}
SCHEDULED = ("learning_rate", "clip_range", "clip_range_vf", "delta_std")
NOISES = {"normal": "normal", "ornstein-uhlenbeck": "ornstein_uhlenbeck"}
NORMALISED = {
    "norm_obs": "normalise_observations",
    "norm_reward": "normalise_rewards",
    "clip_obs": "clip_observations",
    "clip_reward": "clip_rewards",
}
OF_AN_LSTM = ("lstm_hidden_size", "n_lstm_layers", "shared_lstm", "enable_critic_lstm")
REFUSED = {
    "callback": "what it does while a run trains is no setting",
    "monitor_kwargs": "a run records more of each episode by itself",
    "replay_buffer_class": "no buffer but that of the library can be chosen",
    "vec_env_wrapper": "wrappers stand around one environment: environment.wrappers",
}
"""Keys of the zoo that nothing here stands for."""
WRAPPERS = ("gymnasium.wrappers", "stable_baselines3.common.atari_wrappers")
"""Where wrappers may come from: their modules are imported."""

Settings = Iterator[tuple[str, Any]]
"""Dotted keys of a configuration, and their values."""


def translate(
    entry: Mapping[str, Any], known: Collection[str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Translate the hyperparameters of one task.

    Args:
        entry: As they stand in the zoo's file, texts of Python as texts.
        known: Settings of the algorithm.

    Returns:
        Settings by dotted key, and by key of the entry why it could not be translated.
    """
    settings: dict[str, Any] = {}
    troubles: dict[str, str] = {}
    for key, value in entry.items():
        try:
            settings |= dict(_translated(key, value, entry, known))
        except (Untranslatable, NotLiteral) as error:
            troubles[key] = str(error)
    if "n_timesteps" not in entry:
        troubles["n_timesteps"] = "it is missing: nothing says how long training takes"
    return {**settings, **_minibatch(settings, known)}, troubles


def _minibatch(settings: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """A minibatch larger than a rollout is the rollout, which is what the library takes."""
    size, steps = settings.get("algorithm.batch_size"), settings.get("algorithm.n_steps")
    if not isinstance(size, int) or not isinstance(steps, int) or "buffer_size" in known:
        return {}
    rollout = steps * settings.get("environment.vector.count", 1)
    return {"algorithm.batch_size": min(size, rollout)}


def _translated(
    key: str, value: Any, entry: Mapping[str, Any], known: Collection[str]
) -> Settings:
    if key in TRANSLATORS:
        yield from TRANSLATORS[key](value)
    elif key in {"noise_type", "noise_std"}:
        yield "algorithm.action_noise", _noise(entry)
    elif key in known and key in SCHEDULED:
        yield f"algorithm.{key}", _scheduled(value, optional=key == "clip_range_vf")
    elif key in known:
        yield f"algorithm.{key}", plain(value)
    elif key in REFUSED:
        raise Untranslatable(REFUSED[key])
    else:
        hint = did_you_mean(key, [*TRANSLATORS, *known])
        raise Untranslatable(f"neither the algorithm nor the environment has it{hint}")


def _steps(value: Any) -> Settings:
    steps = whole(value)
    yield "budget.steps", steps
    yield "budget.evaluation_every", max(1, steps // EVALUATIONS)


def _count(value: Any) -> Settings:
    yield "environment.vector.count", whole(value)


def _stack(value: Any) -> Settings:
    yield "environment.vector.frame_stack", whole(value)


def _policy(value: Any) -> Settings:
    if not isinstance(value, str) or value not in POLICIES:
        raise Untranslatable(f"{shown_value(value)} is none of {', '.join(POLICIES)}")
    yield from POLICIES[value].items()


def _normalise(value: Any) -> Settings:
    if isinstance(value, bool):
        given: Any = {"norm_obs": value, "norm_reward": value}
    else:
        given = {"norm_obs": True, "norm_reward": True, **mapping(value)}
    for key, own in given.items():
        if key not in NORMALISED:
            raise Untranslatable(f"{key!r} of the normalisation cannot be set here")
        yield f"environment.vector.{NORMALISED[key]}", plain(own)


def _arguments(value: Any) -> Settings:
    for key, own in mapping(value).items():
        yield f"environment.arguments.{key}", plain(own)


def _buffer(value: Any) -> Settings:
    yield "algorithm.replay_buffer_kwargs", plain(mapping(value))


def _wrappers(value: Any) -> Settings:
    found = []
    for one in value if isinstance(value, list) else [value]:
        single = isinstance(one, Mapping) and len(one) == 1
        name, arguments = next(iter(one.items())) if single else (one, None)
        module, _, kind = str(name).rpartition(".")
        if not f"{module}.".startswith(tuple(f"{place}." for place in WRAPPERS)):
            raise Untranslatable(
                f"the wrapper {shown_value(name)} is of neither {' nor '.join(WRAPPERS)}, "
                "and no other module is imported"
            )
        named = kind if module.startswith(WRAPPERS[0]) else f"{WRAPPERS[1]}:{kind}"
        found.append({"name": named, "arguments": plain(mapping(arguments or {}))})
    yield "environment.wrappers", found


def _policy_arguments(value: Any) -> Settings:
    for key, own in mapping(value).items():
        if key == "net_arch":
            yield from _layers(own)
        elif key == "activation_fn":
            yield "agent.activation", _activation(own)
        elif key == "ortho_init" or key in OF_AN_LSTM:
            yield f"agent.{key}", plain(own)
        else:
            yield f"agent.policy_kwargs.{key}", plain(own)


def _layers(value: Any) -> Settings:
    given = value[0] if isinstance(value, list) and len(value) == 1 else value
    if isinstance(given, Mapping) and set(given) in ({"pi", "vf"}, {"pi", "qf"}):
        actor, critic = given["pi"], given.get("vf", given.get("qf"))
        yield "agent.actor", layers(actor)
        yield "agent.critic", layers(critic)
    else:
        yield "agent.network", layers(value)


def _activation(value: Any) -> str:
    name = value.name.rpartition(".") if isinstance(value, ClassName) else ("", "", "")
    if name[0] not in {"nn", "th.nn", "torch.nn"} or name[2] not in ACTIVATIONS:
        raise Untranslatable(f"{shown_value(value)} is none of nn.{', nn.'.join(ACTIVATIONS)}")
    return ACTIVATIONS[name[2]]


def _noise(entry: Mapping[str, Any]) -> dict[str, Any]:
    kind, sigma = entry.get("noise_type"), entry.get("noise_std")
    if not isinstance(kind, str) or kind.strip() not in NOISES or sigma is None:
        raise Untranslatable(f"noise takes noise_std and a noise_type of {', '.join(NOISES)}")
    return {"kind": NOISES[kind.strip()], "sigma": number(sigma)}


def _scheduled(value: Any, *, optional: bool) -> Any:
    if isinstance(value, str) and value.startswith("lin_"):
        return {"shape": "linear", "initial": number(value.removeprefix("lin_"))}
    if optional and value is None:
        return None
    rate = number(value)
    return None if optional and rate < 0 else rate


TRANSLATORS: Mapping[str, Callable[[Any], Settings]] = {
    "n_timesteps": _steps,
    "n_envs": _count,
    "policy": _policy,
    "normalize": _normalise,
    "frame_stack": _stack,
    "env_wrapper": _wrappers,
    "env_kwargs": _arguments,
    "policy_kwargs": _policy_arguments,
    "replay_buffer_kwargs": _buffer,
}
"""Keys of the zoo that are no setting of the algorithm by the same name."""
