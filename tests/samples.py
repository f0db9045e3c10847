"""Small runs, events and experiments for tests of several layers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlexp.protocol.budget import Budget, Compute
from rlexp.protocol.experiment import Configuration, Experiment, Failures
from rlexp.protocol.identity import Plain
from rlexp.protocol.seeds import Phase, SeedPlan, Seeds
from rlexp.protocol.spec import RunSpec
from rlexp.records.events import Continued, Ending, Evaluated, Failure, RunEnded, RunStarted
from rlexp.records.run import RunRecord


def part(group: str, name: str, target: str, **settings: Any) -> dict[str, Any]:
    """A plug-in in records: its name, its class and its settings."""
    plug_in = {"group": group, "name": name, "version": 1}
    return {"plug_in": plug_in, "_target_": target, **settings}


def gymnasium_task(name: str, **settings: Any) -> dict[str, Any]:
    """A Gymnasium environment in records."""
    target = "rlexp.environments.gymnasium_task.GymnasiumTask"
    return part("environment", "gymnasium", target, id=name, **settings)


AGENT: Plain = part("agent", "mlp", "rlexp.agents.mlp.MLP", network=None)
ENVIRONMENT: Plain = gymnasium_task("CartPole-v1", vector={"count": 1})
TUNER: Plain = part("tuner", "random", "rlexp.tuners.random.RandomSearch")
PRUNER: Plain = part("pruner", "none", "rlexp.pruners.none.Never")
SETTINGS: dict[str, Any] = {
    "steps": 100,
    "evaluation_every": 10,
    "evaluation_episodes": 2,
    "evaluation_deterministic": True,
    "final_episodes": 2,
    "score": "final",
    "checkpoint_every": None,
    "checkpoint_minutes": None,
    "timeout": None,
}
REFERENCE: Plain = {"random": None, "threshold": None, "minimum": 1.0}


def algorithm(name: str = "ppo", **hyperparameters: Any) -> dict[str, Any]:
    """An algorithm in a run specification."""
    target = f"rlexp.algorithms.{name}.{name.upper()}"
    return part("algorithm", name, target, **hyperparameters)


def budget(**changes: Any) -> Budget:
    """A budget of 100 steps with an evaluation every 10."""
    return Budget(**{**SETTINGS, **changes})


def spec(
    seed: int = 0,
    phase: Phase = Phase.TEST,
    *,
    root: int = 0,
    learner: Plain | None = None,
    **changes: Any,
) -> RunSpec:
    """A run; keyword arguments change its budget."""
    return RunSpec(
        agent=AGENT,
        algorithm=algorithm() if learner is None else learner,
        environment=ENVIRONMENT,
        budget=budget(**changes).defining(),
        compute={"threads": 1, "device": "cpu"},
        phase=phase,
        root=root,
        seed=seed,
    )


def configuration(
    name: str = "ppo",
    *,
    task: str = "CartPole-v1",
    reference: Plain = REFERENCE,
    **changes: Any,
) -> Configuration:
    """A configuration labelled by its algorithm; keyword arguments change its budget."""
    return Configuration(
        label=name,
        task=task,
        agent=AGENT,
        algorithm=algorithm(name),
        environment={**ENVIRONMENT, "id": task},
        reference=reference,
        budget=budget(**changes),
        compute=Compute(threads=1, device="cpu"),
    )


def experiment(
    *configurations: Configuration,
    test: Seeds = 2,
    root: int = 0,
    failures: Failures = "missing",
) -> Experiment:
    """An experiment with these configurations, by default with a single one, on two test seeds."""
    return Experiment(
        name="sample",
        configurations=configurations or (configuration(),),
        seeds=SeedPlan(root=root, tuning=3, selection=0, test=test),
        failures=failures,
    )


def started(attempt: int = 1) -> RunStarted:
    """The first event of an attempt, at a time that depends on the attempt's number."""
    return RunStarted(time=100.0 * attempt, attempt=attempt, pid=1, host="host")


def continued(step: int, attempt: int = 1) -> Continued:
    """The event of an attempt that continues from a checkpoint of `attempt`."""
    return Continued(time=float(step), step=step, attempt=attempt)


def evaluated(step: int, *returns: float, final: bool = False) -> Evaluated:
    """An evaluation with an episode of each return."""
    return Evaluated(
        time=float(step),
        step=step,
        returns=returns,
        lengths=tuple(1 for _ in returns),
        seconds=0.1,
        final=final,
    )


def ended(
    step: int = 100,
    ending: Ending = Ending.COMPLETED,
    failure: Failure | None = None,
) -> RunEnded:
    """The last event of an attempt; with a failure, the ending is `failed`."""
    return RunEnded(
        time=1000.0,
        step=step,
        ending=Ending.FAILED if failure else ending,
        seconds=5.0,
        failure=failure,
        reason=None if failure is None else f"reason of {failure}",
        weights="abc" if ending is Ending.COMPLETED and failure is None else None,
    )


def completed(run_spec: RunSpec, score: float) -> RunRecord:
    """The record of a completed run whose two final episodes average `score`."""
    final = evaluated(100, score - 1, score + 1, final=True)
    return RunRecord.fold(run_spec, [[started(), final, ended()]])


def failed(run_spec: RunSpec, failure: Failure = Failure.NAN, times: int = 1) -> RunRecord:
    """The record of a run with this number of failed attempts."""
    return RunRecord.fold(
        run_spec, [[started(k + 1), ended(40, failure=failure)] for k in range(times)]
    )


def write_tree(folder: Path, files: Mapping[str, str]) -> Path:
    """Create a folder with these text files; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder
