"""Trains a team of agents by BenchMARL, as a run of rlexp (`algorithm=recipe/benchmarl_mappo`).

The Python of a virtual environment with benchmarl executes it, so nothing of rlexp but `rlexp.trainer` may be
imported here. `settings.algorithm` names the algorithm, `settings.layers` the networks; all other settings
are those of BenchMARL's experiment. The task is its name in BenchMARL (`environment.name=vmas/balance`).
"""

import random
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarl.algorithms import algorithm_config_registry
from benchmarl.environments import task_config_registry
from benchmarl.experiment import Experiment, ExperimentConfig
from benchmarl.models.mlp import MlpConfig
from torchrl.envs import Compose, TransformedEnv
from torchrl.envs.utils import ExplorationType, set_exploration_type

from rlexp.trainer import TEAM, Trainer

OF_TRAINING = ("algorithm", "layers")
"""Settings that are not those of BenchMARL's experiment."""
GIVEN = {
    *("sampling_device", "train_device", "buffer_device", "evaluation", "create_json", "loggers"),
    *("evaluation_episodes", "collect_with_grad", "max_n_frames", "save_folder"),
}
"""Settings of the experiment that this script gives itself."""


def experiment_of(run: Trainer) -> Experiment:
    """The untrained experiment of BenchMARL."""
    config = ExperimentConfig.get_from_yaml()
    run.check_settings({*OF_TRAINING, *vars(config)} - GIVEN)
    for name, value in run.settings.items():
        if name not in OF_TRAINING:
            setattr(config, name, value)
    device = run.configuration["compute"]["device"]
    config.sampling_device = config.train_device = config.buffer_device = device
    # Evaluations, files and the loop over batches are this script's.
    config.evaluation, config.create_json, config.loggers = False, False, []
    config.evaluation_episodes, config.collect_with_grad = 1, True
    config.max_n_frames, config.save_folder = run.steps, str(run.folder)
    algorithm = algorithm_config_registry[run.settings["algorithm"]].get_from_yaml()
    networks = [MlpConfig.get_from_yaml() for _ in range(2)]
    for network in networks:
        network.num_cells = list(run.settings["layers"])
    return Experiment(task_of(run), algorithm, networks[0], run.seed, config, networks[1])


def task_of(run: Trainer) -> Any:
    """The task of the run with its arguments, as BenchMARL knows it."""
    if run.task not in task_config_registry:
        raise SystemExit(
            f"BenchMARL has no task {run.task}: environment=external environment.name=vmas/balance "
            f"(there are: {', '.join(sorted(task_config_registry))})"
        )
    task = task_config_registry[run.task].get_from_yaml()
    task.config.update(run.configuration["environment"]["arguments"])
    return task


def train(run: Trainer, experiment: Experiment) -> None:
    """Train on one more batch, which begins with new episodes and a seed of its own."""
    first = run.configuration["seeds"]["training"][0]
    seed = int(np.random.default_rng([first, experiment.n_iters_performed]).integers(2**31))
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - libraries draw from this generator
    torch.manual_seed(seed)
    experiment.rollout_env.set_seed(seed)
    for buffer in experiment.replay_buffers.values():
        buffer.empty()
    frames = experiment.config.collected_frames_per_batch(experiment.on_policy)
    experiment.config.max_n_frames = experiment.total_frames + frames
    experiment._collection_loop()  # noqa: SLF001 - `run` would end the experiment


def returns_of(run: Trainer, experiment: Experiment, seed: int, episodes: int) -> dict[str, Any]:
    """The return of each agent in each episode."""
    device = experiment.config.sampling_device
    task, several = experiment.task, experiment.test_env.batch_size != ()
    bare = task.get_env_fun(
        episodes if several else 1, experiment.continuous_actions, seed, device
    )()
    transformed = TransformedEnv(bare, Compose(*task.get_env_transforms(bare)))
    environment = experiment.algorithm.process_env_fun(lambda: transformed)()
    environment.set_seed(seed)
    deterministic = run.configuration["budget"]["evaluation_deterministic"]
    kind = ExplorationType.DETERMINISTIC if deterministic else ExplorationType.RANDOM
    with torch.no_grad(), set_exploration_type(kind), torch.random.fork_rng():
        torch.manual_seed(seed)
        rollouts = [
            environment.rollout(
                experiment.max_steps, experiment.policy, break_when_any_done=not several
            )
            for _ in range(1 if several else episodes)
        ]
    environment.close()
    return returns_by_agent(experiment, list(rollouts[0].unbind(0)) if several else rollouts)


def returns_by_agent(experiment: Experiment, rollouts: list[Any]) -> dict[str, Any]:
    """The sum of the rewards of each agent until the first end of an episode."""
    columns: dict[str, list[float]] = {}
    for rollout in rollouts:
        done = rollout["next", "done"].flatten().nonzero()
        length = int(done[0]) + 1 if len(done) else len(rollout)
        for group, agents in experiment.group_map.items():
            totals = rollout["next", group, "reward"][:length].sum(0).flatten().tolist()
            for agent, total in zip(agents, totals, strict=True):
                columns.setdefault(agent, []).append(total)
    return columns


def evaluate(run: Trainer, experiment: Experiment, *, final: bool = False) -> None:
    """Play and report an evaluation in environments of its own."""
    step = experiment.total_frames
    seed, episodes = run.evaluation(step, final=final)
    run.evaluated_team(step, returns_of(run, experiment, seed, episodes), final=final)


def save(experiment: Experiment, path: Path) -> None:
    """Save networks, optimisers and counts; each batch seeds all generators anew."""
    optimizers = {
        group: {name: optimizer.state_dict() for name, optimizer in each.items()}
        for group, each in experiment.optimizers.items()
    }
    torch.save({"experiment": experiment.state_dict(), "optimizers": optimizers}, path)


def restore(experiment: Experiment, path: Path) -> None:
    """Continue from a checkpoint of the same run."""
    # The file is this run's own, so that loading it executes no foreign code.
    state = torch.load(path, weights_only=False)
    experiment.load_state_dict(state["experiment"])
    for group, each in experiment.optimizers.items():
        for name, optimizer in each.items():
            optimizer.load_state_dict(state["optimizers"][group][name])


def main() -> None:
    """Train and evaluate the run, batch by batch."""
    run = Trainer.of_run()
    torch.set_num_threads(run.configuration["compute"]["threads"])
    experiment = experiment_of(run)
    run.check_components([TEAM, *chain.from_iterable(experiment.group_map.values())])
    close, experiment.close = experiment.close, lambda: None
    if saved := run.restored():
        restore(experiment, saved.path)
    while experiment.total_frames < run.steps:
        train(run, experiment)
        run.report(experiment.total_frames, mean_return=experiment.mean_return)
        if run.is_due(experiment.total_frames):
            evaluate(run, experiment)
        run.checkpoint(experiment.total_frames, partial(save, experiment))
    evaluate(run, experiment, final=True)
    close()


if __name__ == "__main__":
    main()
