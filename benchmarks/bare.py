"""PPO on CartPole-v1 as plain stable-baselines3 trains it; prints the seconds of `learn`.

The hyperparameters are those of `conf/benchmark/cartpole.yaml`.
"""

import argparse
import time

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.utils import LinearSchedule


def main() -> None:
    """Train once, and print the seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=100_000)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    model = PPO(
        "MlpPolicy",
        make_vec_env("CartPole-v1", n_envs=8, seed=arguments.seed),
        n_steps=32,
        batch_size=256,
        n_epochs=20,
        gae_lambda=0.8,
        gamma=0.98,
        learning_rate=LinearSchedule(0.001, 0.0, 1.0),
        clip_range=LinearSchedule(0.2, 0.0, 1.0),
        seed=arguments.seed,
        device="cpu",
    )
    started = time.perf_counter()
    model.learn(arguments.steps)
    print(time.perf_counter() - started)


if __name__ == "__main__":
    main()
