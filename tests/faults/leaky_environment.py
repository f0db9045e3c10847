"""An environment that prints every secret that it knows, as careless code does."""

import os
import sys
from typing import Any

import gymnasium
import numpy as np

PRINTED = ("DEMO_TOKEN", "WANDB_API_KEY", "DATABASE_PASSWORD")


class Leaky(gymnasium.Env[Any, Any]):
    """Observes noise, prints its login, and raises an error with its login on request."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float64)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, login: str = "", raises: bool = False) -> None:
        self.login = login
        self.raises = raises
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Begin an episode and print every secret."""
        super().reset(seed=seed)
        self.steps = 0
        for name in PRINTED:
            print(f"{name} is {os.environ[name]}", flush=True)
        # In two parts, so that a reader may see the first part alone.
        sys.stderr.write(self.login[:9])
        sys.stderr.flush()
        sys.stderr.write(self.login[9:] + "\n")
        return self.np_random.uniform(-1, 1, 2), {}

    def step(self, action: Any) -> Any:
        """Take one of ten steps."""
        self.steps += 1
        if self.raises:
            raise RuntimeError(f"login {self.login} failed at https://me:{self.login}@example.org")
        return self.np_random.uniform(-1, 1, 2), 1.0, self.steps >= 10, False, {}


gymnasium.register("Leaky-v0", "leaky_environment:Leaky")
