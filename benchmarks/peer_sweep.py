"""Runs `rl_zoo3.train --optimize` on the space of `sweep.py`, and prints its best trial as JSON.

Executed in the peer's own environment. The peer's space reaches rollouts of 32,768 steps on eight
environments, more than a whole trial has here; so its sampler of PPO gets the space that both
sides search. Everything else is the peer's own.
"""

import json
import sys
from typing import Any

import optuna
from rl_zoo3 import hyperparams_opt
from rl_zoo3.train import train

STORAGE = "sqlite:///peer.db"


def sample(trial: optuna.Trial, *_: Any) -> dict[str, Any]:
    """The space of `sweep.py` in the form of rl-baselines3-zoo."""
    sampled = {
        "batch_size_pow": trial.suggest_int("batch_size_pow", 5, 8),
        "n_steps_pow": trial.suggest_int("n_steps_pow", 5, 8),
        "one_minus_gamma": trial.suggest_float("one_minus_gamma", 0.0001, 0.03, log=True),
        "one_minus_gae_lambda": trial.suggest_float("one_minus_gae_lambda", 0.0001, 0.1, log=True),
        "learning_rate": trial.suggest_float("learning_rate", 1e-5, 0.002, log=True),
        "ent_coef": trial.suggest_float("ent_coef", 1e-8, 0.1, log=True),
        "clip_range": trial.suggest_categorical("clip_range", [0.1, 0.2, 0.3, 0.4]),
        "n_epochs": trial.suggest_categorical("n_epochs", [1, 5, 10, 20]),
        "max_grad_norm": trial.suggest_float("max_grad_norm", 0.3, 2),
        "net_arch": trial.suggest_categorical("net_arch", ["tiny", "small"]),
        "activation_fn": trial.suggest_categorical("activation_fn", ["tanh", "relu"]),
    }
    converted: dict[str, Any] = hyperparams_opt.convert_onpolicy_params(dict(sampled))
    return converted


def main() -> None:
    """Run `rl_zoo3.train` with its own arguments, then print the best trial."""
    hyperparams_opt.HYPERPARAMS_SAMPLER["ppo"] = sample
    sys.argv = ["train.py", *sys.argv[1:], "--storage", STORAGE, "--study-name", "peer"]
    train()
    best = optuna.load_study(study_name="peer", storage=STORAGE).best_trial
    print("BEST " + json.dumps({"params": best.params, "value": best.value}))


if __name__ == "__main__":
    main()
