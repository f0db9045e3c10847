"""The update of PPO without its detours: the operations of `PPO.train`, in the same order.

Left out are copies of each batch through NumPy, records for gradients of numbers that are only logged, a walk
over all modules to find the parameters, and the grouping of gradients by device and type.
"""

# ruff: noqa: SLF001 (the functions on lists of tensors have private names, and torch documents them)
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.utils import explained_variance
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from rlexp.training.lean.actor_critic import ActorCritic, actor_critic_of

ARRAYS = ("observations", "actions", "values", "log_probs", "advantages", "returns")
"""The arrays of a rollout buffer, in the order in which `RolloutBuffer.get` flattens them."""


@dataclass(frozen=True, slots=True)
class MiniBatch:
    """Some steps of a rollout; all but observations and continuous actions are flat (batch)."""

    observations: Tensor
    actions: Tensor
    old_values: Tensor
    old_log_prob: Tensor
    advantages: Tensor
    returns: Tensor


@dataclass(frozen=True, slots=True)
class UpdateLog:
    """What an update logs of each batch."""

    entropy: list[float]
    policy: list[float]
    value: list[float]
    clipped: list[float]


def flat_rollout(buffer: RolloutBuffer, *, discrete: bool) -> list[Tensor]:
    """Flatten the arrays of a full buffer as its `get` does; returns them as tensors, without copies."""
    if not buffer.generator_ready:
        for name in ARRAYS:
            buffer.__dict__[name] = buffer.swap_and_flatten(buffer.__dict__[name])
        buffer.generator_ready = True
    arrays: list[Any] = [buffer.__dict__[name] for name in ARRAYS]
    # The library casts to float32 first, then to integers.
    arrays[1] = arrays[1].astype(np.float32, copy=False)
    observations, actions, *numbers = map(torch.from_numpy, arrays)
    if discrete:
        actions = actions.long().flatten()
    return [observations, actions, *(each.flatten() for each in numbers)]


def batches_of(rollout: list[Tensor], size: int | None) -> Iterator[MiniBatch]:
    """Yield the steps of a rollout in a random order of NumPy's global generator, as `get` does."""
    total = len(rollout[0])
    order = torch.from_numpy(np.random.permutation(total))  # noqa: NPY002 (the library's generator)
    # Each batch is memory of torch, whose alignment decides how matrices are multiplied.
    for chunk in torch.split(order, total if size is None else size):
        yield MiniBatch(*(each.index_select(0, chunk) for each in rollout))


def clip_gradients(parameters: list[nn.Parameter], most: float) -> None:
    """Scale the gradients to a norm of at most `most`, as `torch.nn.utils.clip_grad_norm_` does."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    with torch.no_grad():
        norms = torch._foreach_norm(gradients, 2.0)
        total = torch.linalg.vector_norm(torch.stack(norms), 2.0)
        factor = torch.clamp(float(most) / (total + 1e-6), max=1.0)
        torch._foreach_mul_(gradients, factor)


@dataclass(slots=True)
class PpoUpdate:
    """`PPO.train` for a policy whose networks are functions."""

    model: PPO
    networks: ActorCritic
    parameters: list[nn.Parameter]

    def train(self) -> None:
        """Update the policy with the rollout that was collected last."""
        model = self.model
        model.policy.set_training_mode(True)
        model._update_learning_rate(model.policy.optimizer)
        progress = model._current_progress_remaining
        clip_range: Any = model.clip_range(progress)  # type: ignore[operator]
        clip_range_vf: Any = None
        if model.clip_range_vf is not None:
            clip_range_vf = model.clip_range_vf(progress)  # type: ignore[operator]
        discrete = isinstance(model.action_space, spaces.Discrete)
        rollout = flat_rollout(model.rollout_buffer, discrete=discrete)
        logged, divergences, loss = UpdateLog([], [], [], []), list[Any](), torch.zeros(())
        for epoch in range(model.n_epochs):
            divergences, goes_on = [], True
            for batch in batches_of(rollout, model.batch_size):
                loss, divergence = self._loss(batch, clip_range, clip_range_vf, logged)
                divergences.append(divergence)
                if model.target_kl is not None and divergence > 1.5 * model.target_kl:
                    goes_on = False
                    if model.verbose >= 1:
                        # The library prints this line, which belongs to the log of a run.
                        text = f"due to reaching max kl: {divergence:.2f}"
                        sys.stdout.write(f"Early stopping at step {epoch} {text}\n")
                    break
                self._step(loss)
            model._n_updates += 1
            if not goes_on:
                break
        self._log(logged, divergences, loss, clip_range, clip_range_vf)

    def _loss(
        self, batch: MiniBatch, clip_range: float, clip_range_vf: float | None, logged: UpdateLog
    ) -> tuple[Tensor, Any]:
        """The loss of a batch, and how far the policy has moved from that of the rollout."""
        model = self.model
        values, log_prob, entropy = self.networks.evaluate_actions(
            batch.observations, batch.actions
        )
        values = values.flatten()
        advantages = batch.advantages
        if model.normalize_advantage and len(advantages) > 1:
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        log_ratio = log_prob - batch.old_log_prob
        ratio = torch.exp(log_ratio)
        surrogate = advantages * ratio
        clipped = advantages * torch.clamp(ratio, 1 - clip_range, 1 + clip_range)
        policy_loss = -torch.min(surrogate, clipped).mean()
        logged.policy.append(policy_loss.item())
        # Detached: without records for gradients, which nothing reads.
        moved = ratio.detach() - 1
        logged.clipped.append(torch.mean((torch.abs(moved) > clip_range).float()).item())
        if clip_range_vf is not None:
            change = torch.clamp(values - batch.old_values, -clip_range_vf, clip_range_vf)
            values = batch.old_values + change
        value_loss = mse_loss(batch.returns, values)
        logged.value.append(value_loss.item())
        entropy_loss = -torch.mean(entropy)
        logged.entropy.append(entropy_loss.item())
        loss = policy_loss + model.ent_coef * entropy_loss + model.vf_coef * value_loss
        return loss, torch.mean(moved - log_ratio.detach()).numpy()

    def _step(self, loss: Tensor) -> None:
        for parameter in self.parameters:
            parameter.grad = None
        loss.backward()  # type: ignore[no-untyped-call]
        clip_gradients(self.parameters, self.model.max_grad_norm)
        self.model.policy.optimizer.step()

    def _log(
        self,
        logged: UpdateLog,
        divergences: list[Any],
        loss: Tensor,
        clip_range: float,
        clip_range_vf: float | None,
    ) -> None:
        model, buffer = self.model, self.model.rollout_buffer
        explained = explained_variance(buffer.values.flatten(), buffer.returns.flatten())
        record = model.logger.record
        record("train/entropy_loss", np.mean(logged.entropy))
        record("train/policy_gradient_loss", np.mean(logged.policy))
        record("train/value_loss", np.mean(logged.value))
        record("train/approx_kl", np.mean(divergences))
        record("train/clip_fraction", np.mean(logged.clipped))
        record("train/loss", loss.item())
        record("train/explained_variance", explained)
        if hasattr(model.policy, "log_std"):
            record("train/std", torch.exp(model.policy.log_std).mean().item())
        record("train/n_updates", model._n_updates, exclude="tensorboard")
        record("train/clip_range", clip_range)
        if clip_range_vf is not None:
            record("train/clip_range_vf", clip_range_vf)


def ppo_update_of(model: object) -> PpoUpdate | None:
    """Return the lean update of a learner; None where its class or a part is unknown."""
    if type(model) is not PPO or type(model.rollout_buffer) is not RolloutBuffer:
        return None
    networks, parameters = actor_critic_of(model.policy), list(model.policy.parameters())
    if networks is None or not _are_all_updated(model, parameters):
        return None
    return PpoUpdate(model, networks, parameters)


def _are_all_updated(model: PPO, parameters: list[nn.Parameter]) -> bool:
    """Whether the optimiser has exactly these parameters, of one type, on the CPU."""
    groups = model.policy.optimizer.param_groups
    updated = [id(parameter) for group in groups for parameter in group["params"]]
    return [id(parameter) for parameter in parameters] == updated and all(
        p.dtype is torch.float32 and p.device.type == "cpu" and type(p) is nn.Parameter
        for p in parameters
    )
