"""Trains by SBX, algorithms of stable-baselines3 in JAX, as a run of rlexp (`algorithm=recipe/sbx_ppo`).

The Python of a virtual environment with sbx-rl executes it, so nothing of rlexp but `rlexp.trainer` may be
imported here. `settings.algorithm` names the class; all other settings are its arguments.
"""

from inspect import signature
from typing import Any

import gymnasium
import sbx
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

from rlexp.trainer import Trainer

GIVEN = {"policy", "env", "seed"}
"""Arguments of a class that this script gives."""
FEWEST_STEPS = 1_000
"""Steps between two reports of logged values."""


class ReportingCallback(BaseCallback):
    """Reports the logged values, and plays the evaluations that are due."""

    def __init__(self, run: Trainer) -> None:
        super().__init__()
        self.run = run
        self.reported = 0

    def _on_step(self) -> bool:
        if self.run.is_due(self.num_timesteps):
            evaluate(self.run, self.model, self.num_timesteps)
        return True

    def _on_rollout_end(self) -> None:
        # Off-policy algorithms end a rollout after each step.
        if self.num_timesteps - self.reported < FEWEST_STEPS:
            return
        self.reported = self.num_timesteps
        values: Any = self.logger.name_to_value
        numbers = {
            key: float(value) for key, value in values.items() if not isinstance(value, str)
        }
        self.run.report(self.num_timesteps, **numbers)


class Seeded(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment whose first episode begins with its own seed of the run."""

    def __init__(self, environment: "gymnasium.Env[Any, Any]", seed: int) -> None:
        super().__init__(environment)
        self.first_seed: int | None = seed

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; the seed of the library, that of the policy plus a number, is not used."""
        del seed
        first_seed, self.first_seed = self.first_seed, None
        return super().reset(seed=first_seed, options=options)


def evaluate(run: Trainer, model: BaseAlgorithm, step: int, *, final: bool = False) -> None:
    """Play an evaluation of the policy in an environment of its own."""
    is_deterministic = run.configuration["budget"]["evaluation_deterministic"]

    def act(observation: Any) -> Any:
        return model.predict(observation, deterministic=is_deterministic)[0]

    environment = run.make_environment()
    run.evaluate(environment, act, step, final=final)
    environment.close()


def main() -> None:
    """Train and evaluate the run."""
    run = Trainer.of_run()
    settings = dict(run.settings)
    algorithm: type[BaseAlgorithm] = getattr(sbx, settings.pop("algorithm"))
    run.check_settings({"algorithm", *signature(algorithm).parameters} - GIVEN)
    seeds = run.configuration["seeds"]["training"]
    # One after the other, so that each takes the next seed.
    numbers = iter(seeds)
    environments = make_vec_env(
        lambda: Seeded(run.make_environment(), next(numbers)), n_envs=len(seeds)
    )
    model = algorithm("MlpPolicy", environments, seed=run.seed, **settings)
    model.learn(run.steps, callback=ReportingCallback(run))
    evaluate(run, model, model.num_timesteps, final=True)


if __name__ == "__main__":
    main()
