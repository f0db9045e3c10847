"""Callbacks of users: one that keeps its state, some that do not, and some that end a training."""

from typing import Any

import torch
from stable_baselines3.common.callbacks import BaseCallback


class Tightening(BaseCallback):
    """Lowers the entropy weight with each episode and the share of the budget that is used."""

    def __init__(self, start: float = 0.1, noise: float = 0.0) -> None:
        super().__init__()
        self.start, self.noise, self.episodes = start, noise, 0
        self.memory = torch.zeros(3)

    def _on_training_start(self) -> None:
        # A continued training begins with this, too, and must end as if it did not.
        with torch.no_grad():
            for parameter in self.model.policy.parameters():
                parameter.mul_(0.9)
        self.model.vf_coef = 0.4  # type: ignore[attr-defined]

    def _on_step(self) -> bool:
        self.episodes += int(self.locals["dones"].sum())
        self.memory += torch.rand(3)
        return True

    def _on_rollout_end(self) -> None:
        run = self.run  # type: ignore[attr-defined]
        value = self.start * run.remaining / run.steps / (1 + self.episodes)
        value += self.noise * float(self.memory.sum()) + 0.001 * run.generator().random()
        run.hyperparameters.set("gamma", 0.9 + 0.09 * run.progress)
        run.hyperparameters.set("vf_coef", 0.5 + value)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint holds."""
        return {"episodes": self.episodes, "memory": self.memory}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a checkpoint."""
        self.episodes, self.memory = state["episodes"], state["memory"]


class Forgetful(BaseCallback):
    """Keeps a number that no checkpoint holds."""

    def _on_step(self) -> bool:
        return True


class Unsaved(Forgetful):
    """Returns what no checkpoint can hold."""

    def state_dict(self) -> dict[str, Any]:
        """Return an object."""
        return {"model": self.model}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take nothing."""


class Ending(Forgetful):
    """Ends the training after a number of steps."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.after = after

    def _on_step(self) -> bool:
        return self.num_timesteps < self.after


class Raising(Forgetful):
    """Raises an error at its tenth call."""

    def _on_step(self) -> bool:
        if self.n_calls == 10:
            raise ValueError("no more")
        return True


class LongerRollouts(BaseCallback):
    """Gives each rollout another length."""

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        length = 16 if self.model.n_steps == 32 else 32  # type: ignore[attr-defined]
        self.run.hyperparameters.set("n_steps", length)  # type: ignore[attr-defined]

    def state_dict(self) -> dict[str, Any]:
        """Nothing is kept."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Nothing is kept."""
