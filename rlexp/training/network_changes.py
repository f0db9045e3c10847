"""Networks that change at given steps of a training: another size or activation, inherited weights.

As SEARL does (Franke et al. 2021, arXiv:2009.01555, section 3), the changed network takes the weights of
the one before where shapes overlap. New units and layers begin as the library initialises them. The
state of the optimiser is kept for every parameter whose shape stays, and new for the others.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from copy import deepcopy
from inspect import signature
from math import inf
from typing import Any, TypeAlias

import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from torch import Tensor, nn
from torch.optim import Optimizer

from rlexp.records.checkpoint import STAGE
from rlexp.training.lean.learner import shortcuts_of

Pair: TypeAlias = tuple[Tensor, Tensor]
"""A tensor of the network before, and the one in its place in the network after."""
WITHOUT_OUTPUT = ("policy_net", "value_net", "latent_pi")
"""Chains of the library that end with a hidden layer; the last layer of all others is the output."""
OPTIMISERS = ("optimizer", "actor.optimizer", "critic.optimizer")
"""Where policies of the library keep their optimisers."""
NORMALISATION = (
    *("batch_norm_stats", "batch_norm_stats_target"),
    *("actor_batch_norm_stats", "actor_batch_norm_stats_target"),
)
"""Attributes of off-policy learners with running statistics of their networks."""


class ChangingNetworks:
    """The networks of a training, of which each has its part of the steps.

    Attributes:
        stages: The step at which each part begins, and the arguments of its policy; empty for a
            training whose network stays.
    """

    def __init__(self, stages: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
        self.stages = stages
        self._due: float = 0 if stages else inf
        self._shortcuts = ExitStack()
        self._usable: frozenset[str] = frozenset()

    def use_shortcuts(self, model: BaseAlgorithm, usable: frozenset[str]) -> ExitStack:
        """Put shortcuts in place, also for each later network; the result removes them."""
        self._usable = usable
        self._shortcuts.enter_context(shortcuts_of(model, usable))
        return self._shortcuts

    def set_on(self, model: BaseAlgorithm) -> None:
        """Give a learner the network of the rollout that begins now."""
        step = model.num_timesteps
        # Off-policy learners begin a rollout at each step: the usual case costs one comparison.
        if step < self._due:
            return
        begins = [begin for begin, _ in self.stages]
        stage = bisect_right(begins, step) - 1
        if stage != getattr(model, STAGE, 0):
            # Shortcuts hold the layers of the network that goes.
            self._shortcuts.close()
            self.change(model, stage)
            self.use_shortcuts(model, self._usable)
        self._due = begins[stage + 1] if stage + 1 < len(begins) else inf

    def change(self, model: BaseAlgorithm, stage: int) -> None:
        """Give a learner the network of a stage, with the weights of its present one."""
        if stage == getattr(model, STAGE, 0):
            return
        _, arguments = self.stages[stage]
        change_network(model, arguments)
        # Learners keep it in checkpoints and saved files, which tells what has to be built again.
        setattr(model, STAGE, stage)

    def next_change(self, after: int) -> int | None:
        """The first step after `after` at which the network changes, or None."""
        return min((begin for begin, _ in self.stages if begin > after), default=None)


def change_network(model: BaseAlgorithm, arguments: Mapping[str, Any]) -> None:
    """Replace the network of a learner, between two rollouts.

    New weights are drawn from the present state of torch's generator, so that they are the same for
    each execution of the same training.

    Args:
        model: A learner of the library whose policy is a network.
        arguments: The arguments of the new policy.
    """
    # The library adds arguments of its own to those that it receives.
    model.policy_kwargs = {**model.policy_kwargs, **deepcopy(dict(arguments))}
    before: Any = model.policy
    after: Any = _fresh_policy(model)
    pairs = list(_pairs(before, after))
    with torch.no_grad():
        for old, new in pairs:
            overlap = tuple(slice(min(sizes)) for sizes in zip(old.shape, new.shape, strict=True))
            new[overlap] = old[overlap]
    for name in OPTIMISERS:
        _inherit_state(_attribute(before, name), _attribute(after, name), pairs)
    _move_hooks(before, after)
    model.policy = after
    # Off-policy learners have further names for the parts of their policy.
    if hasattr(model, "_create_aliases"):
        model._create_aliases()  # noqa: SLF001
    _renew_statistics(model, pairs)
    after.set_training_mode(False)
    if getattr(model, "use_sde", False) and model.env is not None:
        # The rollout that begins has drawn its noise for the network before.
        getattr(model, "actor", after).reset_noise(model.env.num_envs)


def _fresh_policy(model: BaseAlgorithm) -> nn.Module:
    arguments = dict(model.policy_kwargs)
    # On-policy learners pass it beside the others, where their policy takes it.
    if "use_sde" in signature(model.policy_class).parameters:
        arguments.setdefault("use_sde", model.use_sde)
    policy: nn.Module = model.policy_class(
        model.observation_space,
        model.action_space,
        model.lr_schedule,
        **arguments,
    )
    return policy.to(model.device)


def _pairs(before: nn.Module, after: nn.Module, name: str = "") -> Iterator[Pair]:
    """The tensors of two networks of one form, in which chains of layers may have other lengths."""
    for mine, others in (
        (before._parameters, after._parameters),  # noqa: SLF001
        (before._buffers, after._buffers),  # noqa: SLF001
    ):
        for key, new in others.items():
            old = mine.get(key)
            if old is not None and new is not None and old.dim() == new.dim():
                yield old, new
    if isinstance(before, nn.Sequential) and isinstance(after, nn.Sequential):
        for old_layer, new_layer in _layers_in_pairs(before, after, name not in WITHOUT_OUTPUT):
            yield from _pairs(old_layer, new_layer)
        return
    children = dict(before.named_children())
    for key, child in after.named_children():
        if key in children:
            yield from _pairs(children[key], child, key)


def _layers_in_pairs(
    before: nn.Sequential, after: nn.Sequential, has_output: bool
) -> Iterator[tuple[nn.Module, nn.Module]]:
    """The layers with numbers of two chains: hidden layers in their order, and the two outputs."""
    for kind in dict.fromkeys(type(layer) for layer in after):
        old, new = ([each for each in chain if type(each) is kind] for chain in (before, after))
        if kind is nn.Linear and has_output and old and new:
            yield old.pop(), new.pop()
        yield from zip(old, new, strict=False)


def _attribute(owner: Any, path: str) -> Any:
    """The attribute at a dotted path, or None."""
    for name in path.split("."):
        owner = getattr(owner, name, None)
    return owner


def _inherit_state(before: Any, after: Any, pairs: Sequence[Pair]) -> None:
    """Give an optimiser the state of the one before, for parameters whose shape stays."""
    if not isinstance(before, Optimizer) or not isinstance(after, Optimizer):
        return
    for old, new in pairs:
        state = before.state.get(old)
        if state and old.shape == new.shape:
            after.state[new] = state


def _move_hooks(before: nn.Module, after: nn.Module) -> None:
    """Give the modules of a network the hooks of those before: prioritised replay acts by them."""
    successors = dict(after.named_modules())
    for name, module in before.named_modules():
        for number, hook in module._forward_hooks.items():  # noqa: SLF001
            if name in successors:
                successors[name].register_forward_hook(
                    hook,
                    with_kwargs=number in module._forward_hooks_with_kwargs,  # noqa: SLF001
                    always_call=number in module._forward_hooks_always_called,  # noqa: SLF001
                )


def _renew_statistics(model: BaseAlgorithm, pairs: Sequence[Pair]) -> None:
    """Let a learner name the running statistics of its new networks."""
    renewed = {id(old): new for old, new in pairs}
    for name in NORMALISATION:
        kept = [renewed.get(id(tensor)) for tensor in getattr(model, name, ())]
        if kept:
            setattr(model, name, [tensor for tensor in kept if tensor is not None])
