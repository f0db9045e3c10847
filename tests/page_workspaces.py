"""Workspaces in which the commands of a page find the experiments and files that they name."""

import csv
import json
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import pytest
import yaml
from import_sources import write_evaluations, write_monitors, write_table
from quick_parts import quick_parts
from shown_commands import blocks
from stored_sweeps import stored_sweep

from rlexp.app.commands.order.move import move

SOURCES = Path(__file__).parent / "exchange" / "imports"
EXPERIMENTS = """\
rlexp run algorithm=ppo environment=cartpole experiment=first seeds.test=2
rlexp run algorithm=ppo,a2c environment=cartpole experiment=duel seeds.test=2
rlexp sweep quick
"""
"""Commands that make the experiments that most pages name."""
TASK = "CartPole-v1"


def trainer_scripts(folder: Path) -> None:
    """Write a training script under each name that the page about external trainers uses."""
    for name in ("train.py", "dqn.py", "ppo_in_one_file.py"):
        (folder / name).write_text("import rlexp\n")


def other_results(folder: Path) -> None:
    """Write results of other tools under the names that the page about imports uses."""
    for seed in range(2):
        monitors = folder / "monitors" / "ppo" / f"seed_{seed}"
        write_monitors(monitors, [20, 30, 50])
        for monitor in monitors.iterdir():
            monitor.write_text(monitor.read_text().replace('"None"', f'"{TASK}"'))
        _write_zoo_run(folder / "zoo_logs" / "ppo" / f"{TASK}_{seed + 1}", seed)
        returns = [[10.0 * n, 11.0 * n] for n in range(1, 11)]
        write_evaluations(
            folder / "evaluations" / "ppo" / f"seed_{seed}", range(10, 101, 10), returns
        )
        _write_ray_trial(folder / "ray_results" / "study" / f"trial_{seed}", seed)
    events = next((SOURCES / "cleanrl").iterdir())
    shutil.copytree(events, folder / "cleanrl" / "runs" / events.name)
    shutil.copytree(events, folder / "tb" / TASK / "dqn_1")
    rows = [("ppo", TASK, seed, 4 * step, step) for seed in range(2) for step in range(1, 11)]
    write_table(folder / "scores.csv", rows, "label,task,seed,step,return")
    logged = "time/total_timesteps,rollout/ep_rew_mean"
    write_table(folder / "progress.csv", [(step, step) for step in range(1, 11)], logged)
    with closing(sqlite3.connect(folder / "mlflow.db")) as connection:
        connection.executescript((SOURCES / "mlflow.sql").read_text())
        rates = (
            "INSERT INTO params (key, value, run_uuid) SELECT 'lr', '0.001', run_uuid FROM runs"
        )
        connection.execute(rates)
        connection.commit()
    _write_studies(folder)


def _write_zoo_run(folder: Path, seed: int) -> None:
    """Write a log folder of rl-baselines3-zoo."""
    arguments = {"algo": "ppo", "env": TASK, "seed": seed, "n_timesteps": 100}
    (folder / TASK).mkdir(parents=True)
    (folder / TASK / "args.yml").write_text(yaml.dump(arguments))
    (folder / TASK / "config.yml").write_text(yaml.dump({"n_steps": 128}))
    write_evaluations(folder, [50, 100], [[1.0, 2.0]] * 2)


def _write_ray_trial(folder: Path, seed: int) -> None:
    """Write a trial of Ray Tune."""
    folder.mkdir(parents=True)
    settings = {"env": TASK, "lr": 0.001, "gamma": 0.99, "seed": seed}
    (folder / "params.json").write_text(json.dumps(settings))
    with (folder / "progress.csv").open("w", newline="") as file:
        rows = [(100 * number, number, number) for number in range(1, 6)]
        header = ("timesteps_total", "training_iteration", "episode_reward_mean")
        csv.writer(file).writerows([header, *rows])


def _write_studies(folder: Path) -> None:
    """Write a study of Optuna into a database and into a journal."""
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    journal = JournalStorage(JournalFileBackend(str(folder / "journal.log")))
    for storage in (f"sqlite:///{folder / 'study.db'}", journal):
        study = optuna.create_study(storage=storage, direction="maximize", study_name="ppo")
        for _ in range(3):
            trial = study.ask({"lr": optuna.distributions.FloatDistribution(1e-4, 1e-2)})
            if storage is not journal:
                trial.report(0.5, 50)
                trial.report(1.0, 100)
            study.tell(trial, 1.0)


def task_package(folder: Path) -> None:
    """Write the package that registers the environment of the page about configuration."""
    lines = ("import gymnasium\n", 'entry = "gymnasium.envs.classic_control:CartPoleEnv"\n')
    registration = 'gymnasium.register("MyTask-v0", entry, max_episode_steps=100)\n'
    (folder / "my_package.py").write_text("".join((*lines, registration)))


def sweep_file(folder: Path) -> None:
    """Write the last file of the page about study files under the name of its sweep."""
    page = (Path(__file__).parents[1] / "docs" / "guides" / "study.md").read_text()
    (folder / "rates.yaml").write_text(blocks(page, "yaml")[-1])


def zoo_hyperparameters(folder: Path) -> None:
    """Write hyperparameters of rl-baselines3-zoo under the names that the page uses."""
    settings = {"n_timesteps": 20000, "policy": "MlpPolicy", "learning_rate": 0.001}
    tasks = dict.fromkeys(("Pendulum-v1", "BipedalWalker-v3"), settings)
    (folder / "hyperparams").mkdir()
    for name, shown in (("sac", tasks), ("td3", {"Pendulum-v1": settings})):
        (folder / "hyperparams" / f"{name}.yml").write_text(yaml.dump(shown))


def finished_sweep(folder: Path) -> None:
    """Write a sweep with a winner under the name that the page about ablations uses."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        quick_parts(monkeypatch)
        sweep = stored_sweep(folder)
        sweep.go_on()
    move("made_up", "overnight", sweep.study)


FILES: Mapping[str, Callable[[Path], None]] = {
    "ablate": finished_sweep,
    "benchmarks": zoo_hyperparameters,
    "configuration": task_package,
    "external": trainer_scripts,
    "import": other_results,
    "study": sweep_file,
}
"""What writes the files that a page needs and does not show, by the page's name."""
EMPTY = {"cluster", "components", "gallery"}
"""Pages whose commands begin in a workspace without experiments."""
BEFORE: Mapping[str, str] = {
    "records": """\
rlexp run environment=cartpole component=safety experiment=safe seeds.test=1 \\
    environment.components.safety.constraints='{track: {entry: 0, above: 0.1, below: -0.1}}'
""",
    "reports": """\
rlexp run algorithm=ppo environment=cartpole experiment=new seeds.test=2
rlexp run algorithm=ppo environment=cartpole experiment=old seeds.test=2
rlexp run algorithm=ppo environment=cartpole_contexts experiment=robust seeds.test=1
""",
    "trackers": "export WANDB_MODE=offline\n",
}
"""Commands that are given before those of a page, by the page's name."""
