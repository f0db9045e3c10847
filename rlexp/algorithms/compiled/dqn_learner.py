"""DQN of stable-baselines3 whose training is a compiled program."""

from typing import TYPE_CHECKING, Any

import numpy as np
import stable_baselines3
from numpy.typing import NDArray

from rlexp.algorithms.compiled.off_policy_learner import CompiledOffPolicyLearner, values_of
from rlexp.algorithms.compiled.training import adam_state, write_adam_state, write_parameters

if TYPE_CHECKING:
    from rlexp.algorithms.compiled.dqn_program import DQNLearning, DQNState

SCALARS = ("tau", "max_grad_norm")


class CompiledDQNLearner(CompiledOffPolicyLearner, stable_baselines3.DQN):
    """DQN that is compiled with its environments, which a `CompiledVector` names."""

    def _learning(self) -> "DQNLearning":
        from rlexp.algorithms.compiled.dqn_program import DQNLearning
        from rlexp.algorithms.compiled.policy import CompiledNetwork

        network = self.q_net
        return DQNLearning(
            network=CompiledNetwork.of(network.activation_fn, ("q_net", network.q_net)),
            actions=int(network.action_space.n),
            target_every=max(self.target_update_interval // self.n_envs, 1),
        )

    def _learned(self) -> "DQNState":
        from rlexp.algorithms.compiled.dqn_program import DQNState

        network = adam_state(list(self.q_net.named_parameters()), self.policy.optimizer)
        target = {n: p.detach().numpy().copy() for n, p in self.q_net_target.named_parameters()}
        return DQNState(network, target)

    def _write_learned(self, learned: "DQNState") -> None:
        named = list(self.q_net.named_parameters())
        write_adam_state(learned.network, named, self.policy.optimizer)
        write_parameters(learned.target, list(self.q_net_target.named_parameters()))

    def _scalars(self) -> dict[str, Any]:
        return {name: np.float32(getattr(self, name)) for name in SCALARS}

    def _exploration(self, steps: NDArray[np.int64], total: int) -> NDArray[np.float32]:
        rates = values_of(self.exploration_schedule, 1.0 - steps / total)
        # The library sets the rate after each step: it is 0 at the first one of a training.
        return np.where(steps == 0, 0.0, rates).astype(np.float32)

    def _before_evaluation(self, total: int) -> None:
        # The library evaluates before it sets the rate of the step.
        self.exploration_rate = float(
            self._exploration(np.array([self.num_timesteps - self.n_envs]), total)[0]
        )

    def _record_step(self, total: int) -> None:
        super()._record_step(total)
        self.exploration_rate = self.exploration_schedule(self._current_progress_remaining)
        self.logger.record("rollout/exploration_rate", self.exploration_rate)
