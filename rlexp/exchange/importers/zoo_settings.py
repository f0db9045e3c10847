"""Translation of rl-baselines3-zoo's hyperparameters into settings of rlexp.

Every key is translated, or a reason is given why it cannot be.
"""

import ast
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from rlexp.errors import did_you_mean

NUMBER = re.compile(r"[+-]?(\d+(_\d+)*\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
PYTHON = frozenset({"python", "value"})
"""Keys of the mapping that replaces an object with a `!!python` tag."""
EVALUATIONS = 20
"""Evaluations in a run; the zoo's files do not contain their number."""
ALGORITHMS = {"ppo_lstm": "recurrent_ppo"}
"""Algorithms whose names differ: the zoo's name and rlexp's name."""
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
    "monitor_kwargs": "rlexp always records every episode",
    "replay_buffer_class": "only the library's default buffer is supported",
    "vec_env_wrapper": "use environment.wrappers, which wrap each single environment",
}
"""Keys of the zoo without an equivalent, and the reason."""
STOPPING = "StopTrainingOnRewardThreshold"
"""The library's callback that ends a training at a return."""
WITHOUT_EFFECT = frozenset(
    {
        *("RawStatisticsCallback", "ProgressBarCallback", "CheckpointCallback"),
        *("SaveVecNormalizeCallback", "LogEveryNTimesteps"),
    }
)
"""Callbacks that change no training: rlexp logs, saves and shows by itself."""
WRAPPERS = ("gymnasium.wrappers", "stable_baselines3.common.atari_wrappers")
"""Modules from which wrappers may be imported; no other module is."""
Settings = Iterator[tuple[str, Any]]
"""Dotted keys of a configuration, and their values."""
LONGEST_EXPRESSION = 2000
"""Characters of the longest expression that is parsed."""


class Untranslatable(ValueError):  # noqa: N818
    """A value cannot be expressed in a configuration; the message says why."""


def plain(value: Any) -> Any:
    """A value of the algorithm: a number, a word such as `auto`, or a list or mapping of these."""
    if value is None or (isinstance(value, int | float) and _is_finite(value)):
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
    raise Untranslatable(f"{shown_value(value)} is not a number, a word, a list or a mapping")


def _is_finite(value: float) -> bool:
    """Whether a float can hold the number; an integer may have too many digits."""
    try:
        return isfinite(value)
    except OverflowError:
        return False


def mapping(value: Any) -> dict[str, Any]:
    """A mapping, also from a text with a mapping in Python syntax."""
    result = parse_literal(value) if isinstance(value, str) else value
    if not isinstance(result, Mapping) or set(result) == PYTHON:
        raise Untranslatable(f"{shown_value(value)} is not a mapping")
    return dict(result)


def layers(value: Any) -> list[int]:
    """The numbers of units of a list of layers."""
    if not isinstance(value, list):
        raise Untranslatable(f"{shown_value(value)} is not a list of layers")
    return [whole(units) for units in value]


def number(value: Any) -> float:
    """A finite number, also from a text."""
    text = isinstance(value, str) and NUMBER.fullmatch(value)
    if not (text or isinstance(value, int | float)) or isinstance(value, bool):
        raise Untranslatable(f"{shown_value(value)} is not a number")
    exact = value if isinstance(value, int) else float(value)
    if not _is_finite(exact):
        raise Untranslatable(f"{shown_value(value)} is not a finite number")
    return float(exact)


def whole(value: Any) -> int:
    """A whole number, also from a text with an exponent (`1e5`)."""
    result = number(value)
    if not result.is_integer():
        raise Untranslatable(f"{shown_value(value)} is not a whole number")
    return int(result)


def shown_value(value: Any) -> str:
    """A value for error messages, shortened."""
    if isinstance(value, ClassName):
        return value.name
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"


def translate_zoo_settings(
    entry: Mapping[str, Any], available: Collection[str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Translate the hyperparameters of one task.

    Args:
        entry: The entry of the zoo's file; Python expressions are texts.
        available: Settings of the algorithm.

    Returns:
        Settings by dotted key, and the reasons for keys of the entry that were not translated.
    """
    settings: dict[str, Any] = {}
    troubles: dict[str, str] = {}
    for key, value in entry.items():
        try:
            settings |= dict(_translated(key, value, entry, available))
        except (Untranslatable, NotLiteral) as error:
            troubles[key] = str(error)
    if "n_timesteps" not in entry:
        troubles["n_timesteps"] = "it is missing, so the length of the training is unknown"
    return {**settings, **_minibatch(settings, available)}, troubles


def _minibatch(settings: Mapping[str, Any], available: Collection[str]) -> dict[str, Any]:
    """Limit the minibatch to the rollout, as the library does."""
    size, steps = settings.get("algorithm.batch_size"), settings.get("algorithm.n_steps")
    # With a replay buffer, minibatches are drawn from the buffer and not from the rollout.
    if not isinstance(size, int) or not isinstance(steps, int) or "buffer_size" in available:
        return {}
    rollout = steps * settings.get("environment.vector.count", 1)
    return {"algorithm.batch_size": min(size, rollout)}


def _translated(
    key: str, value: Any, entry: Mapping[str, Any], available: Collection[str]
) -> Settings:
    if key in TRANSLATORS:
        yield from TRANSLATORS[key](value)
    elif key in {"noise_type", "noise_std"}:
        yield "algorithm.action_noise", _noise(entry)
    elif key in available and key in SCHEDULED:
        yield f"algorithm.{key}", _scheduled(value, optional=key == "clip_range_vf")
    elif key in available:
        yield f"algorithm.{key}", plain(value)
    elif key in REFUSED:
        raise Untranslatable(REFUSED[key])
    else:
        hint = did_you_mean(key, [*TRANSLATORS, *available])
        raise Untranslatable(f"neither the algorithm nor the environment has this setting{hint}")


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
        raise Untranslatable(f"{shown_value(value)} is not one of {', '.join(POLICIES)}")
    yield from POLICIES[value].items()


def _normalise(value: Any) -> Settings:
    if isinstance(value, bool):
        settings: Any = {"norm_obs": value, "norm_reward": value}
    else:
        settings = {"norm_obs": True, "norm_reward": True, **mapping(value)}
    for key, item in settings.items():
        if key not in NORMALISED:
            raise Untranslatable(f"{key!r} of the normalisation cannot be set here")
        yield f"environment.vector.{NORMALISED[key]}", plain(item)


def _arguments(value: Any) -> Settings:
    for key, item in mapping(value).items():
        yield f"environment.arguments.{key}", plain(item)


def _buffer(value: Any) -> Settings:
    yield "algorithm.replay_buffer_kwargs", plain(mapping(value))


def _classes(value: Any) -> Iterator[tuple[Any, Any]]:
    """The classes of an entry with one or several, with their arguments; None without arguments."""
    for entry in value if isinstance(value, list) else [value]:
        single = isinstance(entry, Mapping) and len(entry) == 1
        yield next(iter(entry.items())) if single else (entry, None)


def _callbacks(value: Any) -> Settings:
    for name, arguments in _classes(value):
        kind = str(name).rpartition(".")[2]
        if kind == STOPPING:
            yield "budget.stop_at", number(mapping(arguments or {}).get("reward_threshold"))
        elif kind not in WITHOUT_EFFECT:
            raise Untranslatable(
                f"the callback {shown_value(name)} is code that acts: leave the key out, and name the class "
                "by +callback.NAME._target_=… and --allow-import, or use callback=… of rlexp"
            )


def _wrappers(value: Any) -> Settings:
    wrappers = []
    for name, arguments in _classes(value):
        module, _, kind = str(name).rpartition(".")
        # The dot at the end excludes a module whose name only begins in the same way.
        if not f"{module}.".startswith(tuple(f"{module_name}." for module_name in WRAPPERS)):
            raise Untranslatable(
                f"the wrapper {shown_value(name)} is not in {' or '.join(WRAPPERS)}; "
                "no other module is imported"
            )
        wrapper_name = kind if module.startswith(WRAPPERS[0]) else f"{WRAPPERS[1]}:{kind}"
        wrappers.append({"name": wrapper_name, "arguments": plain(mapping(arguments or {}))})
    yield "environment.wrappers", wrappers


def _policy_arguments(value: Any) -> Settings:
    for key, item in mapping(value).items():
        if key == "net_arch":
            yield from _layers(item)
        elif key == "activation_fn":
            yield "agent.activation", _activation(item)
        elif key == "ortho_init" or key in OF_AN_LSTM:
            yield f"agent.{key}", plain(item)
        else:
            yield f"agent.policy_kwargs.{key}", plain(item)


def _layers(value: Any) -> Settings:
    sizes = value[0] if isinstance(value, list) and len(value) == 1 else value
    if isinstance(sizes, Mapping) and set(sizes) in ({"pi", "vf"}, {"pi", "qf"}):
        actor, critic = sizes["pi"], sizes.get("vf", sizes.get("qf"))
        yield "agent.actor", layers(actor)
        yield "agent.critic", layers(critic)
    else:
        yield "agent.network", layers(value)


def _activation(value: Any) -> str:
    name = value.name.rpartition(".") if isinstance(value, ClassName) else ("", "", "")
    if name[0] not in {"nn", "th.nn", "torch.nn"} or name[2] not in ACTIVATIONS:
        raise Untranslatable(f"{shown_value(value)} is not one of nn.{', nn.'.join(ACTIVATIONS)}")
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
    # The library treats a negative clip range of the value function as no clipping.
    rate = number(value)
    return None if optional and rate < 0 else rate


TRANSLATORS: Mapping[str, Callable[[Any], Settings]] = {
    "n_timesteps": _steps,
    "n_envs": _count,
    "policy": _policy,
    "normalize": _normalise,
    "frame_stack": _stack,
    "callback": _callbacks,
    "env_wrapper": _wrappers,
    "env_kwargs": _arguments,
    "policy_kwargs": _policy_arguments,
    "replay_buffer_kwargs": _buffer,
}
"""Translators of the zoo's keys that have another name in rlexp."""


class NotLiteral(ValueError):  # noqa: N818
    """A text contains more than values and would have to be executed."""


@dataclass(frozen=True, slots=True)
class ClassName:
    """A dotted name of a class in a library (`nn.ReLU`)."""

    name: str


def parse_literal(text: str) -> Any:
    """The value of `dict(key=…)`, `{'key': …}`, lists, tuples, numbers, texts and dotted names.

    Raises:
        NotLiteral: The text contains anything else; the message names it.
    """
    if len(text) > LONGEST_EXPRESSION:
        raise NotLiteral(f"it has more than {LONGEST_EXPRESSION:,} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval")
        return _value(tree.body)
    # Deeply nested text makes Python's parser raise RecursionError or MemoryError.
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, NotLiteral):
            raise
        raise NotLiteral(f"{_shown(text)} is not an expression of values") from error


def _value(node: ast.expr) -> Any:
    match node:
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_value(item) for item in items]
        case ast.Dict(keys=keys, values=values):
            return {_key(key): _value(item) for key, item in zip(keys, values, strict=True)}
        case ast.Call(func=ast.Name(id="dict"), args=[], keywords=keywords):
            return {_keyword(keyword): _value(keyword.value) for keyword in keywords}
        case ast.Name() | ast.Attribute():
            return ClassName(_dotted(node))
    return _constant(node)


def _constant(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=None | bool() | int() | str()):
            return node.value
        case ast.Constant(value=float() as number) if isfinite(number):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant() as unsigned):
            number = _constant(unsigned)
            if type(number) in {int, float}:
                return -number
    raise NotLiteral(f"{_shown(ast.unparse(node))} would have to be executed")


def _key(node: ast.expr | None) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise NotLiteral("a key is not a text")


def _keyword(keyword: ast.keyword) -> str:
    if keyword.arg is None:
        raise NotLiteral(f"**{_shown(ast.unparse(keyword.value))} would have to be executed")
    return keyword.arg


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    raise NotLiteral(f"{_shown(ast.unparse(node))} would have to be executed")


def _shown(text: str) -> str:
    short = " ".join(text.split())
    return repr(short if len(short) <= 80 else f"{short[:79]}…")
