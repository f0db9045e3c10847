"""Translation of a configuration into rl-baselines3-zoo's hyperparameters.

It is the inverse of `rlexp.exchange.importers.zoo_settings`. Every setting that decides how a run
learns is translated, or a reason is given why it cannot be.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from rlexp.exchange.importers.zoo_settings import (
    ACTIVATIONS,
    ALGORITHMS,
    NOISES,
    NORMALISED,
    OF_AN_LSTM,
    POLICIES,
    SCHEDULED,
    WRAPPERS,
    Untranslatable,
)
from rlexp.protocol.identity import PLUG_IN, TARGET, short_name

BUFFER = "buffer_size"
"""A setting that only algorithms with a replay buffer have."""
AS_TEXT = ("replay_buffer_kwargs",)
"""Settings of an algorithm that the zoo reads as Python expressions."""
START_FROM = "start_from"
"""The setting of an algorithm that names the policy with which the training begins."""
UNKNOWN_TO_ZOO = {
    "components": "the zoo has no components",
    "max_episode_steps": "the zoo cannot set the length of episodes",
    "imports": "the zoo imports packages by --gym-packages",
    "name": "the zoo names a task by its id",
}
"""Settings of an environment without an equivalent, and the reason."""
PARTS_OF_ENVIRONMENT = ("id", "arguments", "wrappers", "vector")
"""Settings of an environment that are translated."""

Pairs = Iterator[tuple[str, Any]]
"""Keys of an entry of the zoo, and their values."""


def zoo_algorithm(algorithm: Mapping[str, Any]) -> str:
    """The zoo's name of an algorithm, which is the name of its file of hyperparameters."""
    name = short_name(algorithm)
    return next((zoo for zoo, ours in ALGORITHMS.items() if ours == name), name)


def zoo_entry(
    agent: Mapping[str, Any],
    algorithm: Mapping[str, Any],
    environment: Mapping[str, Any],
    steps: int,
    explicit: Collection[str] = (),
    replay: Mapping[str, Any] | None = None,
) -> tuple[dict[str, Any], dict[str, str]]:
    """Translate a recorded configuration.

    Args:
        agent: The recorded agent.
        algorithm: The recorded algorithm.
        environment: The recorded environment.
        steps: Environment steps of a run.
        explicit: Keys of the algorithm that are written although their value is null.
        replay: The recorded replay; None for uniform replay.

    Returns:
        The entry of the zoo's file, and the reasons for settings that were not translated.
    """
    entry: dict[str, Any] = {"n_timesteps": steps}
    troubles: dict[str, str] = {}
    parts = (
        ("environment", _environment(environment)),
        ("agent", _policy(agent, off_policy=BUFFER in algorithm)),
        ("algorithm", _algorithm(algorithm, explicit)),
        ("replay", _replay(replay)),
    )
    for name, pairs in parts:
        try:
            entry |= dict(pairs)
        except Untranslatable as error:
            troubles[name] = str(error)
    return entry, troubles


def _environment(environment: Mapping[str, Any]) -> Pairs:
    if not isinstance(environment.get("id"), str):
        raise Untranslatable("it has no Gymnasium id, which names an entry of the zoo")
    for key, value in environment.items():
        if key in {PLUG_IN, TARGET, *PARTS_OF_ENVIRONMENT} or not value:
            continue
        raise Untranslatable(f"{key}: {UNKNOWN_TO_ZOO.get(key, 'the zoo has no such setting')}")
    if arguments := environment.get("arguments"):
        yield "env_kwargs", dict(arguments)
    if wrappers := environment.get("wrappers"):
        yield "env_wrapper", [_wrapper(wrapper) for wrapper in wrappers]
    yield from _vector(environment.get("vector", {}))


def _wrapper(wrapper: Mapping[str, Any] | str) -> Any:
    """A wrapper with its arguments, by the Python path of its class."""
    name = wrapper if isinstance(wrapper, str) else str(wrapper["name"])
    module, colon, kind = name.partition(":")
    path = f"{module}.{kind}" if colon else f"{WRAPPERS[0]}.{name}"
    arguments = {} if isinstance(wrapper, str) else wrapper.get("arguments") or {}
    return {path: dict(arguments)} if arguments else path


def _vector(vector: Mapping[str, Any]) -> Pairs:
    yield "n_envs", vector.get("count", 1)
    if vector.get("kind", "dummy") != "dummy":
        raise Untranslatable("vector.kind: the zoo chooses it by --vec-env, not in this file")
    if vector.get("frame_stack", 1) != 1:
        yield "frame_stack", vector["frame_stack"]
    if vector.get("normalise_observations") or vector.get("normalise_rewards"):
        yield "normalize", expression({zoo: vector[ours] for zoo, ours in NORMALISED.items()})


def _policy(agent: Mapping[str, Any], *, off_policy: bool) -> Pairs:
    name = short_name(agent)
    settings = {"agent": name, "agent.input": agent.get("input", "mlp")}
    matching = [
        policy
        for policy, defining in POLICIES.items()
        if all(settings[key] == value for key, value in {**_PLAIN_POLICY, **defining}.items())
    ]
    if not matching:
        raise Untranslatable(f"the zoo has no policy for the agent {name}")
    yield "policy", matching[0]
    arguments = dict(_policy_arguments(agent, off_policy=off_policy))
    if arguments:
        yield "policy_kwargs", expression(arguments)


_PLAIN_POLICY = {"agent": "mlp", "agent.input": "mlp"}
"""The agent of a policy of the zoo that names no other."""


class _Code(str):
    """A Python expression that is written as it is."""

    __slots__ = ()


def _policy_arguments(agent: Mapping[str, Any], *, off_policy: bool) -> Pairs:
    if agent.get("network") is not None:
        yield "net_arch", agent["network"]
    elif agent.get("actor") is not None or agent.get("critic") is not None:
        if agent.get("actor") is None or agent.get("critic") is None:
            raise Untranslatable("the zoo needs the layers of actor and critic, or of neither")
        critic = "qf" if off_policy else "vf"
        yield "net_arch", {"pi": agent["actor"], critic: agent["critic"]}
    if agent.get("activation") is not None:
        names = {ours: zoo for zoo, ours in ACTIVATIONS.items()}
        yield "activation_fn", _Code(f"nn.{names[agent['activation']]}")
    for key in ("ortho_init", *OF_AN_LSTM):
        if agent.get(key) is not None:
            yield key, agent[key]
    yield from (agent.get("policy_kwargs") or {}).items()


def _replay(replay: Mapping[str, Any] | None) -> Pairs:
    if replay is not None:
        raise Untranslatable(
            f"replay={short_name(replay)}: the zoo names a class of a replay buffer"
        )
    return iter(())


def _algorithm(algorithm: Mapping[str, Any], explicit: Collection[str]) -> Pairs:
    if "command" in algorithm:
        raise Untranslatable("the zoo cannot run a training script")
    for key, value in algorithm.items():
        if key in {PLUG_IN, TARGET} or (value is None and key not in explicit):
            continue
        if key == START_FROM:
            raise Untranslatable(f"{key}: the zoo begins with a trained agent by --trained-agent")
        if isinstance(value, Mapping) and value.get("shape") == "steps":
            raise Untranslatable(f"{key}: the zoo has no values that change at given steps")
        if key == "action_noise" and value is not None:
            yield "noise_type", {ours: zoo for zoo, ours in NOISES.items()}[value["kind"]]
            yield "noise_std", value["sigma"]
        elif key in SCHEDULED and isinstance(value, Mapping):
            yield key, _schedule(key, value)
        elif key in AS_TEXT and isinstance(value, Mapping):
            yield key, expression(value)
        else:
            yield key, value


def _schedule(key: str, value: Mapping[str, Any]) -> Any:
    if value["shape"] == "constant":
        return value["initial"]
    if (value.get("final", 0.0), value.get("until", 1.0)) != (0.0, 1.0):
        raise Untranslatable(f"{key}: a schedule of the zoo ends at 0, at the end of training")
    return f"lin_{value['initial']!r}"


def expression(value: Any) -> str:
    """A JSON value as a Python expression, with `dict(…)` for mappings, as the zoo writes it."""
    if isinstance(value, Mapping):
        return f"dict({', '.join(f'{key}={expression(item)}' for key, item in value.items())})"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(expression, value))}]"
    return str(value) if isinstance(value, _Code) else repr(value)
