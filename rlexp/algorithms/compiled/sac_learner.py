"""SAC of stable-baselines3 whose training is a compiled program."""

from typing import TYPE_CHECKING, Any

import numpy as np
import stable_baselines3
import torch
from numpy.typing import NDArray

from rlexp.algorithms.compiled.off_policy_learner import CompiledOffPolicyLearner
from rlexp.algorithms.compiled.training import adam_state, write_adam_state, write_parameters

if TYPE_CHECKING:
    from rlexp.algorithms.compiled.sac_program import SACLearning, SACState

COEFFICIENT = "log_ent_coef"


class CompiledSACLearner(CompiledOffPolicyLearner, stable_baselines3.SAC):
    """SAC that is compiled with its environments, which a `CompiledVector` names."""

    def _learning(self) -> "SACLearning":
        from rlexp.algorithms.compiled.policy import CompiledNetwork
        from rlexp.algorithms.compiled.sac_program import SACLearning, TwoHeadedActor

        actor, kind = self.actor, self.policy.activation_fn
        hidden = ("latent_pi", actor.latent_pi)
        # With gSDE alone, it would be a parameter.
        log_std: Any = actor.log_std
        mean = CompiledNetwork.of(kind, hidden, ("mu", actor.mu))
        deviation = CompiledNetwork.of(kind, hidden, ("log_std", log_std))
        space: Any = self.action_space
        return SACLearning(
            actor=TwoHeadedActor(mean=mean, deviation=deviation),
            critics=tuple(
                CompiledNetwork.of(kind, (f"qf{number}", network))
                for number, network in enumerate(self.critic.q_networks)
            ),
            low=space.low,
            high=space.high,
            target_every=self.target_update_interval,
            learns_coefficient=self.log_ent_coef is not None,
        )

    def _learned(self) -> "SACState":
        from rlexp.algorithms.compiled.adam import AdamState
        from rlexp.algorithms.compiled.sac_program import SACState

        if self.log_ent_coef is not None and self.ent_coef_optimizer is not None:
            coefficient = adam_state([(COEFFICIENT, self.log_ent_coef)], self.ent_coef_optimizer)
        else:
            # A coefficient of 0 has the logarithm -∞, whose exponential is 0 again.
            with np.errstate(divide="ignore"):
                fixed = np.log(self.ent_coef_tensor.numpy().reshape(1))
            zeros = {COEFFICIENT: np.zeros(1, np.float32)}
            coefficient = AdamState({COEFFICIENT: fixed}, zeros, zeros, np.float32(0))
        critic, target = self.critic, self.critic_target
        return SACState(
            adam_state(list(self.actor.named_parameters()), self.actor.optimizer),
            adam_state(list(critic.named_parameters()), critic.optimizer),
            {name: p.detach().numpy().copy() for name, p in target.named_parameters()},
            coefficient,
        )

    def _write_learned(self, learned: "SACState") -> None:
        for state, network in ((learned.actor, self.actor), (learned.critic, self.critic)):
            write_adam_state(state, list(network.named_parameters()), network.optimizer)
        write_parameters(learned.target, list(self.critic_target.named_parameters()))
        if self.log_ent_coef is not None and self.ent_coef_optimizer is not None:
            named = [(COEFFICIENT, self.log_ent_coef)]
            write_adam_state(learned.coefficient, named, self.ent_coef_optimizer)

    def _scalars(self) -> dict[str, Any]:
        return {"tau": np.float32(self.tau), "target_entropy": np.float32(self.target_entropy)}

    def _optimisers(self) -> list[torch.optim.Optimizer]:
        coefficient = [] if self.ent_coef_optimizer is None else [self.ent_coef_optimizer]
        return [self.actor.optimizer, self.critic.optimizer, *coefficient]

    def _numbers(self, log: Any, rollouts: int) -> dict[str, NDArray[np.float32]]:
        numbers = super()._numbers(log, rollouts)
        if self.log_ent_coef is None:
            del numbers["ent_coef_loss"]
        return numbers
