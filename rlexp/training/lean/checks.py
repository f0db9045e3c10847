"""Checks of some milliseconds: whether each shortcut computes equal bits on this processor.

The tests have shown equal weights, journals and scores on the processors where they ran. Another
processor has other vector units, so each shortcut is compared here with the library's own code.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy
from stable_baselines3.sac.policies import SACPolicy
from torch import Tensor, nn
from torch.optim import Adam, Optimizer, RMSprop

from rlexp.training.environments.rng_state import undisturbed_globals
from rlexp.training.lean.actor_critic import actor_critic_of
from rlexp.training.lean.classic_control import dynamics_of
from rlexp.training.lean.optimisers import all_at_once
from rlexp.training.lean.ppo_update import ARRAYS, ppo_update_of
from rlexp.training.lean.predictions import prediction_of
from rlexp.training.lean.registry import (
    CLASSIC_CONTROL,
    MODE,
    OPTIMISER,
    POLICY,
    PPO_UPDATE,
    PREDICTION,
)
from rlexp.training.lean.squashed_actor import squashed_actor_of

BATCHES = (1, 8, 65)
"""Sizes of compared batches: whole vectors of any processor, and rests of them."""
OBSERVATIONS = spaces.Box(-1.0, 1.0, (5,), np.float32)
ACTIONS = (spaces.Discrete(3), spaces.Box(-2.0, 2.0, (2,), np.float32))
VECTORS = (1, 3, 8)
"""Numbers of environments in compared vectors."""
STEPS = 25
UPDATES: tuple[dict[str, Any], ...] = (
    {"batch_size": 33, "n_epochs": 2},
    {"batch_size": 66, "n_epochs": 1, "clip_range_vf": 0.2, "ent_coef": 0.01},
)
"""Settings of compared updates."""


def passed_checks(names: Iterable[str]) -> frozenset[str]:
    """Return the names of the shortcuts that compute equal bits here; changes no generator."""
    passed = set()
    with undisturbed_globals():
        for name in names:
            # A shortcut that fails in any way is not used: the library's code always works.
            with suppress(Exception):
                if CHECKS[name]():
                    passed.add(name)
    return frozenset(passed)


def equal_bits(first: Iterable[Tensor | None], second: Iterable[Tensor | None]) -> bool:
    """Whether two series of tensors hold the same bits."""
    return [_as_bytes(each) for each in first] == [_as_bytes(each) for each in second]


def _as_bytes(tensor: Tensor | None) -> bytes:
    return b"" if tensor is None else tensor.detach().contiguous().numpy().tobytes()


def _seeded(compute: Callable[[], Iterable[Tensor]]) -> list[Tensor]:
    torch.default_generator.manual_seed(1)
    return list(compute())


def _policies() -> list[ActorCriticPolicy]:
    torch.default_generator.manual_seed(0)
    return [
        ActorCriticPolicy(OBSERVATIONS, space, lambda _: 1e-3, activation_fn=activation)
        for space in ACTIONS
        for activation in (nn.Tanh, nn.ReLU)
    ]


def _sac_policy() -> SACPolicy:
    return SACPolicy(OBSERVATIONS, ACTIONS[1], lambda _: 1e-3, net_arch=[32, 32])


def _gradients(policy: nn.Module, results: Iterable[Tensor]) -> list[Tensor | None]:
    policy.zero_grad()
    torch.stack([result.sum() for result in results]).sum().backward()  # type: ignore[no-untyped-call]
    return [parameter.grad for parameter in policy.parameters()]


def _check_policy() -> bool:
    return all(
        _same_actor_critic(policy, size) for policy in _policies() for size in BATCHES
    ) and all(_same_squashed_actor(size) for size in BATCHES)


def _same_actor_critic(policy: ActorCriticPolicy, size: int) -> bool:
    networks = actor_critic_of(policy)
    assert networks is not None
    inputs = torch.randn(size, 5)
    with torch.no_grad():
        collected = _seeded(lambda: policy.forward(inputs))
        if not equal_bits(collected, _seeded(lambda: networks.forward(inputs))):
            return False
        if not equal_bits([policy.predict_values(inputs)], [networks.predict_values(inputs)]):
            return False
    actions = collected[0]
    library = policy.evaluate_actions(inputs, actions)
    expected = _gradients(policy, [each for each in library if each is not None])
    lean = networks.evaluate_actions(inputs, actions)
    return equal_bits(library, lean) and equal_bits(expected, _gradients(policy, lean))


def _same_squashed_actor(size: int) -> bool:
    actor = _sac_policy().actor
    lean = squashed_actor_of(actor)
    assert lean is not None
    inputs = torch.randn(size, 5)
    library = _seeded(lambda: actor.action_log_prob(inputs))
    expected = _gradients(actor, library)
    results = _seeded(lambda: lean.action_log_prob(inputs))
    return (
        equal_bits(library, results)
        and equal_bits(expected, _gradients(actor, results))
        and equal_bits(_seeded(lambda: [actor(inputs)]), _seeded(lambda: [lean.forward(inputs)]))
    )


def _check_prediction() -> bool:
    return all(
        _same_prediction(policy, size, deterministic=deterministic)
        for policy in (*_policies(), _sac_policy())
        for size in BATCHES
        for deterministic in (True, False)
    )


def _same_prediction(policy: BasePolicy, size: int, *, deterministic: bool) -> bool:
    lean = prediction_of(policy)
    assert lean is not None
    inputs = torch.randn(size, 5).numpy()
    torch.default_generator.manual_seed(1)
    expected, _ = policy.predict(inputs, deterministic=deterministic)
    torch.default_generator.manual_seed(1)
    actions, _ = lean.predict(inputs, deterministic=deterministic)
    return expected.dtype == actions.dtype and expected.tobytes() == actions.tobytes()


def _check_mode() -> bool:
    return all(_same_in_both_modes(policy) for policy in _policies())


def _same_in_both_modes(policy: ActorCriticPolicy) -> bool:
    inputs = torch.randn(8, 5)
    policy.set_training_mode(True)
    trained = policy.predict_values(inputs)
    policy.set_training_mode(False)
    return equal_bits([trained], [policy.predict_values(inputs)])


def _check_optimiser() -> bool:
    return _same_steps(lambda p: Adam(p, lr=3e-4, eps=1e-5)) and _same_steps(
        lambda p: RMSprop(p, lr=7e-4, alpha=0.99, eps=1e-5)
    )


def _same_steps(make: Callable[[list[nn.Parameter]], Optimizer]) -> bool:
    def trained(*, lean: bool) -> list[Tensor]:
        torch.default_generator.manual_seed(0)
        # Sizes around those of vector registers, whose rests are computed in another way.
        parameters = [nn.Parameter(torch.randn(size)) for size in (1, 7, 8, 31, 64, 333)]
        optimiser = make(parameters)
        fast = all_at_once(optimiser)
        assert fast is not None
        for _ in range(4):
            for parameter in parameters:
                parameter.grad = torch.randn_like(parameter)
            (fast.step if lean else optimiser.step)()
        states = optimiser.state_dict()["state"].values()
        return [*parameters, *(each for state in states for each in state.values())]

    return equal_bits(trained(lean=False), trained(lean=True))


def _check_ppo_update() -> bool:
    return all(_same_update(space, **settings) for space in ACTIONS for settings in UPDATES)


def _same_update(space: spaces.Space[Any], **settings: Any) -> bool:
    """Whether an update of PPO moves all parameters alike, and logs the same numbers."""

    def updated(*, lean: bool) -> list[Any]:
        model = PPO("MlpPolicy", SpacesOnly(space), seed=0, n_steps=66, device="cpu", **settings)
        model.set_logger(Logger(None, []))
        rollout, buffer = np.random.default_rng(0), model.rollout_buffer
        for name in ARRAYS:
            array = buffer.__dict__[name]
            array[...] = rollout.standard_normal(array.shape, np.float32)
        if isinstance(space, spaces.Discrete):
            buffer.actions[...] = rollout.integers(space.n, size=buffer.actions.shape)
        buffer.full = True
        np.random.seed(0)  # noqa: NPY002 (the library's generator)
        update = ppo_update_of(model)
        assert update is not None
        (update.train if lean else model.train)()
        logged = list(model.logger.name_to_value.items())
        return [*map(_as_bytes, model.policy.parameters()), logged]

    return updated(lean=False) == updated(lean=True)


class SpacesOnly(gymnasium.Env[Any, Any]):
    """An environment without steps, from which a learner takes the spaces."""

    def __init__(self, action_space: spaces.Space[Any]) -> None:
        self.observation_space = OBSERVATIONS
        self.action_space = action_space


def _check_classic_control() -> bool:
    names = ("CartPole-v1", "Pendulum-v1", "MountainCar-v0", "Acrobot-v1")
    return all(_same_dynamics(name, count) for name in names for count in VECTORS)


def _same_dynamics(name: str, count: int) -> bool:
    """Whether environments and their dynamics agree over some steps with random actions."""
    bares = [gymnasium.make(name, disable_env_checker=True).unwrapped for _ in range(count)]
    dynamics = dynamics_of(bares)
    assert dynamics is not None
    for seed, bare in enumerate(bares):
        bare.reset(seed=seed)
        bare.action_space.seed(seed)
    states = np.array([bare.state for bare in bares], dtype=np.float64)  # type: ignore[attr-defined]
    for _ in range(STEPS):
        actions = np.array([bare.action_space.sample() for bare in bares])
        outcome = dynamics.step(states, actions)
        states = outcome.states
        for position, bare in enumerate(bares):
            observation, reward, terminated, *_ = bare.step(actions[position])
            state = np.asarray(bare.state, dtype=np.float64)  # type: ignore[attr-defined]
            same = (
                observation.tobytes() == outcome.observations[position].tobytes()
                and float(reward) == outcome.rewards[position]
                and terminated == outcome.terminated[position]
                and state.tobytes() == states[position].tobytes()
            )
            if not same:
                return False
            if terminated:
                bare.reset()
                states[position] = bare.state  # type: ignore[attr-defined]
    return True


CHECKS: Mapping[str, Callable[[], bool]] = {
    POLICY: _check_policy,
    PREDICTION: _check_prediction,
    MODE: _check_mode,
    OPTIMISER: _check_optimiser,
    PPO_UPDATE: _check_ppo_update,
    CLASSIC_CONTROL: _check_classic_control,
}
