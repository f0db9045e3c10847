"""Trains a front of policies by MORL-Baselines, as a run of rlexp (`algorithm=recipe/morl_envelope`).

The Python of a virtual environment with morl-baselines executes it, so nothing of rlexp but `rlexp.trainer`
may be imported here. `settings.algorithm` names the class; settings that are not `OF_TRAINING` are its
arguments.
"""

import pickle
import random
from collections.abc import Callable, Iterator
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

import mo_gymnasium
import numpy as np
import torch
from morl_baselines.common.weights import equally_spaced_weights
from morl_baselines.multi_policy.envelope.envelope import Envelope
from morl_baselines.multi_policy.multi_policy_moqlearning.mp_mo_q_learning import MPMOQLearning

from rlexp.trainer import Trainer

ALGORITHMS = {"Envelope": Envelope, "MPMOQLearning": MPMOQLearning}
OF_TRAINING = ("algorithm", "steps_per_part", "evaluation_weights")
"""Settings that are not arguments of the class."""
GIVEN = {"env", "seed", "log", "device"}
"""Arguments of the class that this script gives."""
Act = Callable[[Any], Any]


def make(run: Trainer) -> Any:
    """An environment of the run's task, with a vector reward."""
    return run.make_environment(mo_gymnasium.make)


def first_agent(run: Trainer, settings: dict[str, Any]) -> Any:
    """An untrained agent with the seed of the run."""
    random.seed(run.seed)
    np.random.seed(run.seed)  # noqa: NPY002 - the library draws from this generator
    torch.manual_seed(run.seed)
    kind = ALGORITHMS[settings["algorithm"]]
    run.check_settings({*OF_TRAINING, *signature(kind).parameters} - GIVEN)
    arguments = {name: value for name, value in settings.items() if name not in OF_TRAINING}
    if kind is Envelope:
        arguments["device"] = torch.device(run.configuration["compute"]["device"])
    return kind(make(run), seed=run.seed, log=False, **arguments)


def train(run: Trainer, agent: Any, step: int, steps: int) -> None:
    """Train from `step` for some steps; the environment begins a new episode with a seed of its own.

    A copy of an environment may lack its random generators: those of MO-Gymnasium are copied by making
    them anew. Seeds of each part let it go on in the same way after a kill.
    """
    seeds = run.configuration["seeds"]
    draws = np.random.default_rng([seeds["training"][0], seeds["actions"], step])
    for_episodes, for_actions = map(int, draws.integers(2**31, size=2))
    agent.env.reset(seed=for_episodes)
    agent.env.action_space.seed(for_actions)
    if isinstance(agent, MPMOQLearning):
        # Each part learns the policy of one more weight vector.
        agent.train(steps, None, None, timesteps_per_iteration=steps)
    else:
        agent.train(steps, reset_num_timesteps=False)


def policies_of(agent: Any, weights: int) -> Iterator[Act]:
    """The policies of an agent: one for each weight vector."""
    if isinstance(agent, MPMOQLearning):
        for policy in agent.policies:
            yield partial(policy.eval, w=policy.weights)
        return
    for vector in equally_spaced_weights(agent.reward_dim, n=weights):
        yield partial(agent.eval, w=vector)


def play(environment: Any, act: Act, seed: int, episodes: int) -> list[Any]:
    """The vector return of each episode of one policy."""
    returns = []
    for number in range(episodes):
        observation, _ = environment.reset(seed=seed if number == 0 else None)
        total, done = 0.0, False
        while not done:
            observation, reward, terminated, truncated, _ = environment.step(act(observation))
            total, done = total + reward, terminated or truncated
        returns.append(total)
    return returns


def evaluate(run: Trainer, agent: Any, step: int, weights: int, *, final: bool = False) -> None:
    """Play every policy of the front in an environment of its own, all with the same seed."""
    seed, episodes = run.evaluation(step, final=final)
    names = run.configuration["environment"].get("objectives") or range(agent.reward_dim)
    environment, front = make(run), []
    for act in policies_of(agent, weights):
        columns = np.array(play(environment, act, seed, episodes)).T
        front.append(dict(zip(map(str, names), columns.tolist(), strict=True)))
    environment.close()
    run.evaluated_front(step, front, final=final)


def progress(agent: Any) -> dict[str, float]:
    """What is logged of an agent."""
    if isinstance(agent, MPMOQLearning):
        return {"policies": len(agent.policies)}
    return {"episodes": agent.num_episodes, "epsilon": agent.epsilon}


def save(agent: Any, path: Path) -> None:
    """Save an agent and every random generator but those of its environment."""
    generators = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    path.write_bytes(pickle.dumps((agent, generators)))


def restored(path: Path) -> Any:
    """The agent of a checkpoint; the random generators continue where they were."""
    # The file is this run's own, so that unpickling it executes no foreign code.
    agent, (state, numbers, tensors) = pickle.loads(path.read_bytes())  # noqa: S301
    random.setstate(state)
    np.random.set_state(numbers)  # noqa: NPY002
    torch.set_rng_state(tensors)
    return agent


def main() -> None:
    """Train and evaluate the run, in parts that begin with a new episode."""
    run = Trainer.of_run()
    settings = dict(run.settings)
    weights, part = settings["evaluation_weights"], settings["steps_per_part"]
    saved = run.restored()
    agent = restored(saved.path) if saved else first_agent(run, settings)
    step = saved.step if saved else 0
    while step < run.steps:
        steps = min(part, run.steps - step)
        train(run, agent, step, steps)
        step += steps
        run.report(step, **progress(agent))
        if run.is_due(step):
            evaluate(run, agent, step, weights)
        run.checkpoint(step, partial(save, agent))
    evaluate(run, agent, step, weights, final=True)


if __name__ == "__main__":
    main()
