"""An actor-critic policy of gradient-boosted trees, for the on-policy learners of stable-baselines3.

The learner computes its loss as for networks. Its gradient with respect to the outputs of the ensemble, one row
for each transition of the minibatch, is what the next tree fits. A step of the optimiser adds that tree.
"""

from collections.abc import Callable
from pathlib import Path
from struct import unpack_from
from tempfile import TemporaryDirectory
from typing import Any

import gymnasium
import numpy as np
import torch
from gbrl.models.actor_critic import ActorCritic
from stable_baselines3.common.distributions import (
    BernoulliDistribution,
    CategoricalDistribution,
    DiagGaussianDistribution,
    Distribution,
    MultiCategoricalDistribution,
)
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.preprocessing import get_flattened_obs_dim
from torch import nn

TREES = "trees"
"""Name of the file that holds an ensemble."""
TREE_COUNT_AT = 28
"""Byte of the file of gbrl 1.1 at which the number of trees stands, as a 32-bit integer."""
ALLOCATED = slice(32, 40)
"""Bytes of the same file that say for how many trees and leaves there is room."""


class TreePolicy(ActorCriticPolicy):
    """Policy and values as one ensemble of trees.

    Observations are flat, and discrete ones are one-hot. The state of the module holds the ensemble as bytes, so that
    saved models and checkpoints continue with the same trees.
    """

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        lr_schedule: Callable[[float], float],
        *,
        policy_learning_rate: float = 0.1,
        value_learning_rate: float = 0.01,
        max_depth: int = 4,
        n_bins: int = 256,
        min_data_in_leaf: int = 0,
        grow_policy: str = "greedy",
        split_score: str = "cosine",
        max_policy_gradient: float | None = None,
        max_value_gradient: float | None = None,
        log_std_init: float = 0.0,
        use_sde: bool = False,
        optimizer_class: type[torch.optim.Optimizer] = torch.optim.Adam,
        optimizer_kwargs: dict[str, Any] | None = None,
    ) -> None:
        if use_sde:
            raise ValueError(
                "agent=gbrl has no features for state-dependent exploration: use_sde=false"
            )
        self.tree_structure = {
            "max_depth": max_depth,
            "grow_policy": grow_policy,
            "n_bins": n_bins,
            "min_data_in_leaf": min_data_in_leaf,
            "par_th": 2**31 - 1,
        }
        self.split_score = split_score
        self.rates = (policy_learning_rate, value_learning_rate)
        self.largest_gradients = (max_policy_gradient, max_value_gradient)
        super().__init__(
            observation_space,
            action_space,
            lr_schedule,
            net_arch=[],
            log_std_init=log_std_init,
            optimizer_class=optimizer_class,
            optimizer_kwargs=optimizer_kwargs,
        )

    def _build(self, lr_schedule: Callable[[float], float]) -> None:
        outputs = self._outputs()
        policy_rate, value_rate = self.rates
        self.ensemble = ActorCritic(
            tree_struct=self.tree_structure,
            input_dim=get_flattened_obs_dim(self.observation_space),
            output_dim=outputs + 1,
            policy_optimizer={
                "policy_algo": "SGD",
                "policy_lr": policy_rate,
                "start_idx": 0,
                "stop_idx": outputs,
            },
            value_optimizer={
                "value_algo": "SGD",
                "value_lr": value_rate,
                "start_idx": outputs,
                "stop_idx": outputs + 1,
            },
            shared_tree_struct=True,
            params={"split_score_func": self.split_score, "generator_type": "Quantile"},
        )
        if isinstance(self.action_dist, DiagGaussianDistribution):
            self.log_std = nn.Parameter(torch.full((outputs,), float(self.log_std_init)))
        else:
            # An optimiser of torch needs a parameter. This one is empty.
            self.log_std = nn.Parameter(torch.empty(0))
        self.optimizer = self.optimizer_class(
            [self.log_std],
            lr=float(lr_schedule(1)),
            **self.optimizer_kwargs,  # type: ignore[call-arg]
        )
        self.optimizer.register_step_post_hook(lambda *_: self._add_tree())

    def _outputs(self) -> int:
        """The number of parameters of the distribution of actions that depend on the observation."""
        match self.action_dist:
            case (
                DiagGaussianDistribution(action_dim=count)
                | CategoricalDistribution(action_dim=count)
            ):
                return int(count)
            case BernoulliDistribution(action_dims=count):
                return int(count)
            case MultiCategoricalDistribution(action_dims=counts):
                return int(sum(counts))
        raise NotImplementedError(f"trees have no distribution {type(self.action_dist).__name__}")

    def _add_tree(self) -> None:
        policy_gradient, value_gradient = self.largest_gradients
        self.ensemble.step(policy_grad_clip=policy_gradient, value_grad_clip=value_gradient)

    def _predicted(
        self, obs: Any, *, gradients: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Parameters of the actions, of shape (N, outputs), and values, of shape (N, 1)."""
        features = self.extract_features(obs, self.pi_features_extractor)
        assert isinstance(features, torch.Tensor)
        inputs = np.ascontiguousarray(features.detach().cpu().numpy(), dtype=np.float32)
        parameters, values = self.ensemble(inputs, requires_grad=gradients, tensor=True)
        rows, device = len(inputs), self.device
        return parameters.reshape(rows, -1).to(device), values.reshape(rows, 1).to(device)

    def _distribution(self, parameters: torch.Tensor) -> Distribution:
        if isinstance(self.action_dist, DiagGaussianDistribution):
            return self.action_dist.proba_distribution(parameters, self.log_std)
        return self.action_dist.proba_distribution(parameters)

    def forward(
        self, obs: Any, deterministic: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return actions, of shape (N, …), values, (N, 1), and logarithms of probabilities, (N,)."""
        parameters, values = self._predicted(obs)
        distribution = self._distribution(parameters)
        actions = distribution.get_actions(deterministic=deterministic)
        log_prob = distribution.log_prob(actions)
        return actions.reshape((-1, *self.action_space.shape)), values, log_prob  # type: ignore[misc]

    def evaluate_actions(
        self, obs: Any, actions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Return values, (N, 1), logarithms of probabilities, (N,), and entropies, (N,), with gradients."""
        parameters, values = self._predicted(obs, gradients=True)
        distribution = self._distribution(parameters)
        return values, distribution.log_prob(actions), distribution.entropy()

    def get_distribution(self, obs: Any) -> Distribution:
        """The distribution of actions for observations of shape (N, …)."""
        return self._distribution(self._predicted(obs)[0])

    def predict_values(self, obs: Any) -> torch.Tensor:
        """The values of observations, of shape (N, 1)."""
        return self._predicted(obs)[1]

    def get_extra_state(self) -> torch.Tensor:
        """The ensemble as bytes."""
        with TemporaryDirectory() as folder:
            self.ensemble.save_learner(str(Path(folder) / TREES))
            (file,) = Path(folder).iterdir()
            content = bytearray(file.read_bytes())
        # The room that is allocated for more trees differs between equal ensembles, and loading ignores it.
        (trees,) = unpack_from("<i", content, TREE_COUNT_AT)
        if trees == self.ensemble.get_iteration():
            content[ALLOCATED] = bytes(ALLOCATED.stop - ALLOCATED.start)
        return torch.frombuffer(content, dtype=torch.uint8)

    def set_extra_state(self, state: torch.Tensor) -> None:
        """Take the ensemble from its bytes."""
        with TemporaryDirectory() as folder:
            file = Path(folder) / f"{TREES}.gbrl_model"
            file.write_bytes(state.cpu().numpy().tobytes())
            self.ensemble = ActorCritic.load_learner(str(file.with_suffix("")), "cpu")
