"""A tiny script in the style of CleanRL, for tests: unchanged, and with the two changed lines."""

SCRIPT = """
# docs and experiment results can be found at https://docs.cleanrl.dev/rl-algorithms/dqn/
import argparse
import os
import random
import time

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.utils.tensorboard import SummaryWriter


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--exp-name", type=str, default=os.path.basename(__file__)[: -len(".py")])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--env-id", type=str, default="CartPole-v1")
    parser.add_argument("--total-timesteps", type=int, default=500)
    parser.add_argument("--learning-rate", type=float, default=2.5e-3)
    return parser.parse_args()


def make_env(env_id, seed, idx, capture_video, run_name):
    def thunk():
        env = gym.make(env_id)
        env = gym.wrappers.RecordEpisodeStatistics(env)
        env.action_space.seed(seed)
        return env

    return thunk


if __name__ == "__main__":
    args = parse_args()
    run_name = f"{args.env_id}__{args.exp_name}__{args.seed}__{int(time.time())}"
    writer = SummaryWriter(f"runs/{run_name}")
    writer.add_text("hyperparameters", "|param|value|\\\\n|-|-|\\\\n|seed|1|")
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    env = make_env(args.env_id, args.seed, 0, False, run_name)()
    q_network = nn.Linear(4, 2)
    optimizer = optim.Adam(q_network.parameters(), lr=args.learning_rate)
    obs, _ = env.reset(seed=args.seed)
    for global_step in range(1, args.total_timesteps + 1):
        action = int(q_network(torch.Tensor(obs)).argmax())
        if random.random() < 0.2:
            action = env.action_space.sample()
        next_obs, reward, terminated, truncated, info = env.step(action)
        with torch.no_grad():
            target = reward + 0.99 * q_network(torch.Tensor(next_obs)).max() * (not terminated)
        loss = F.mse_loss(q_network(torch.Tensor(obs))[action], target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        obs = next_obs
        if terminated or truncated:
            writer.add_scalar("charts/episodic_return", float(info["episode"]["r"]), global_step)
            obs, _ = env.reset()
        if global_step % 100 == 0:
            writer.add_scalar("losses/td_loss", loss.item(), global_step)
    env.close()
    writer.close()
"""

WRITER = 'SummaryWriter(f"runs/{run_name}")'
CHANGED_WRITER = 'SummaryWriter(os.environ.get("RLEXP_FOLDER", f"runs/{run_name}"))'
END = "    env.close()\n"
EVALUATION = (
    "    import rlexp; rlexp.final_evaluation(make_env(args.env_id, 0, 0, False, run_name), "
    "lambda obs: int(q_network(torch.Tensor(obs)).argmax()), global_step)\n"
)
COMMAND = "{python} dqn.py --env-id {task} --seed {seed} --total-timesteps {steps}"


def changed_script() -> str:
    """The script with the two changed lines of `docs/guides/external.md`."""
    return SCRIPT.replace(WRITER, CHANGED_WRITER).replace(END, EVALUATION + END)
