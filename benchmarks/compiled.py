"""Steps per second of processor time of compiled algorithms beside stable-baselines3, turn by turn.

Both sides train the same configuration in one process and one thread, without evaluations and records.
Prints the median of the ratios, with compiling apart, and writes `benchmarks/results/compiled.json`.

`python benchmarks/compiled.py`, or single rows: `python benchmarks/compiled.py ppo_cartpole --turns 3`.

The row `seeds` trains 1, 8, 64 and 256 seeds of PPO on CartPole, each number in a fresh process, which
executes them in turn as `rlexp run` does. It prints steps per second over all seeds, and the peak of
the resident memory of the process.

The row `batches` trains several seeds of PPO on CartPole in one call, as `compute.batch` does, each number
in a fresh process: 1, 8 and 64 on the processor, and 1 to 4,096 with `--device gpu`, which needs the
version of JAX for this GPU. It prints steps per second over all seeds: of processor time on the
processor, of wall-clock time on a GPU.
"""

import argparse
import json
import multiprocessing
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

from rlexp.app.execution.run_process import assemble
from rlexp.config.compose import compose
from rlexp.config.validate import validate
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

RESULTS = Path(__file__).parent / "results" / "compiled.json"
SMALL = (
    *("environment.vector.count=8", "algorithm.n_steps=128", "algorithm.batch_size=256"),
    "algorithm.n_epochs=4",
)


@dataclass(frozen=True, slots=True)
class Row:
    """A training: its configuration, steps of both sides, and how much faster it should be."""

    algorithm: str
    words: tuple[str, ...]
    library_steps: int
    compiled_steps: int
    aim: float


ROWS = {
    "ppo_cartpole": Row("ppo", ("environment=cartpole", *SMALL), 16_384, 200_704, 15),
    "dqn_cartpole": Row("dqn", ("environment=cartpole",), 8_000, 100_000, 10),
    "ppo_pendulum": Row("ppo", ("environment=pendulum", *SMALL), 16_384, 200_704, 10),
    "sac_pendulum": Row("sac", ("environment=pendulum",), 1_000, 2_000, 1),
}
SEEDS_ROW = "seeds"
SEEDS = (1, 8, 64, 256)
"""Numbers of seeds that one process trains."""
SEED_STEPS = 10_240
"""Environment steps of each of these seeds."""


BATCHES_ROW = "batches"
BATCHES = {"cpu": (1, 8, 64), "gpu": (1, 8, 64, 256, 1024, 4096)}
"""Numbers of seeds in one call, by the device."""
BATCH_CALLS = 4
"""Measured calls, after a first one that compiles."""
PLATFORMS = {"cpu": "cpu", "gpu": "cuda"}
"""The platform of JAX by the device."""


class Marks(BaseCallback):
    """Processor seconds at the steps at which the library calls back."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[int] = []
        self.seconds: list[float] = []

    def _on_step(self) -> bool:
        self.steps.append(self.num_timesteps)
        self.seconds.append(time.process_time())
        return True

    def rate(self, first: int) -> float:
        """Steps per second from the mark of this number to the last."""
        return (self.steps[-1] - self.steps[first]) / (self.seconds[-1] - self.seconds[first])


def spec_of(algorithm: str, row: Row, seed: int = 0) -> RunSpec:
    """The run of a row with one of the two algorithms."""
    words = (f"algorithm={algorithm}", *row.words, f"budget.steps={row.compiled_steps}")
    values = compose(words, Path("nowhere"))[0].plain
    settings, _ = validate(values, ())
    return RunSpec(
        agent=values["agent"],
        algorithm=values["algorithm"],
        environment={k: v for k, v in values["environment"].items() if k != "reference"},
        budget=settings.budget.defining(),
        compute=settings.compute.defining(),
        phase=Phase.TEST,
        root=0,
        seed=seed,
    )


def library_rate(row: Row) -> float:
    """Steps per second of stable-baselines3 alone, without shortcuts of rlexp."""
    training = assemble(spec_of(row.algorithm, row), lean=False)
    count = training.environment.vector.count
    model = training.algorithm.build(
        training.agent.policy,
        training.agent.arguments(),
        make_vec_env(training.environment.task, n_envs=count),
        seed=0,
        device="cpu",
    )
    marks = Marks()
    begun = time.process_time()
    model.learn(row.library_steps, callback=marks)
    return row.library_steps / (time.process_time() - begun)


def compiled_learner(row: Row, seed: int = 0) -> BaseAlgorithm:
    """A fresh compiled learner of a row."""
    training = assemble(spec_of(f"compiled_{row.algorithm}", row, seed))
    with tempfile.TemporaryDirectory(prefix="rlexp-compiled-") as folder:
        model: BaseAlgorithm = training.build(Path(folder))
    return model


def compiled_rate(row: Row) -> tuple[float, float]:
    """Steps per second of the compiled algorithm after its first chunks, and seconds before them."""
    model = compiled_learner(row)
    marks = Marks()
    begun = time.process_time()
    model.learn(row.compiled_steps, callback=marks)
    # The first chunk that learns comes after the warm-up of an off-policy algorithm.
    starts = getattr(model, "learning_starts", 0)
    first = next(n for n, step in enumerate(marks.steps) if step > starts) + 1
    return marks.rate(first), marks.seconds[0] - begun


def measure(row: Row, turns: int) -> dict[str, object]:
    """The median ratio of some turns, with the least and the most, and what it comes from."""
    pairs = [(library_rate(row), compiled_rate(row)) for _ in range(turns)]
    ratios = sorted(compiled / library for library, (compiled, _) in pairs)
    return {
        "ratio": statistics.median(ratios),
        "least": ratios[0],
        "most": ratios[-1],
        "turns": turns,
        "aim": row.aim,
        "library_steps_per_second": statistics.median(library for library, _ in pairs),
        "compiled_steps_per_second": statistics.median(rate for _, (rate, _) in pairs),
        "first_chunk_seconds": pairs[0][1][1],
    }


def train_seeds(count: int, answer: "Connection") -> None:
    """Train so many seeds in turn, and send steps per second and the peak of memory in MiB.

    The seconds are those after the first seed has been trained once, which compiles.
    """
    torch.set_num_threads(1)
    row = ROWS["ppo_cartpole"]
    compiled_learner(row).learn(SEED_STEPS)
    begun = time.process_time()
    for seed in range(count):
        compiled_learner(row, seed).learn(SEED_STEPS)
    rate = count * SEED_STEPS / (time.process_time() - begun)
    answer.send((rate, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))


def in_fresh_process(measured: Callable[..., None], *arguments: Any) -> Any:
    """What a function sends that a fresh process executes."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=measured, args=(*arguments, sender))
    process.start()
    sender.close()
    answer = receiver.recv()
    process.join()
    return answer


def measure_seeds(count: int) -> dict[str, float]:
    """Steps per second and peak memory of a fresh process that trains so many seeds."""
    rate, memory = in_fresh_process(train_seeds, count)
    return {"steps_per_second": rate, "peak_mebibytes": memory}


def seed_rows() -> dict[str, dict[str, float]]:
    """Measure every number of seeds, and print it."""
    found = {}
    for count in SEEDS:
        found[str(count)] = measured = measure_seeds(count)
        print(
            f"{count} seeds: {measured['steps_per_second']:,.0f} steps a second, "
            f"{measured['peak_mebibytes']:,.0f} MiB at most",
            flush=True,
        )
    return found


def train_batch(count: int, device: str, answer: "Connection") -> None:
    """Train so many seeds in one call, and send steps per second, and the peak of memory in MiB.

    What the library's side of a run does between two calls is left out.
    """
    torch.set_num_threads(1)
    learner: Any = compiled_learner(ROWS["ppo_cartpole"])
    learner._setup_learn(ROWS["ppo_cartpole"].compiled_steps, None)  # noqa: SLF001
    # Building the learner has named the processor, and JAX reads the variable when it is imported.
    os.environ["JAX_PLATFORMS"] = PLATFORMS[device]
    import jax
    import numpy as np

    program = learner._program()  # noqa: SLF001
    rollouts = 8
    first = learner._state(program)._replace(key=(), environments=())  # noqa: SLF001
    # All seeds begin with the same weights, which is as fast as with weights of their own.
    begins = jax.vmap(program._begin)(  # noqa: SLF001
        np.arange(count, dtype=np.uint32),
        np.arange(count * program.environments.count, dtype=np.uint32).reshape(count, -1),
    )
    state = jax.tree.map(lambda leaf: np.stack([np.asarray(leaf)] * count), first)
    state = jax.device_put(state._replace(key=begins[0], environments=begins[1]))
    advance = jax.jit(jax.vmap(program.trained, in_axes=(0, None, None, None)))
    arguments = (
        learner._scalars(),  # noqa: SLF001
        learner._schedules(program, rollouts, 1_000_000),  # noqa: SLF001
        np.int32(rollouts),
    )
    clock = time.process_time if device == "cpu" else time.perf_counter
    begun = clock()
    state = jax.block_until_ready(advance(state, *arguments))[0]
    compiling = clock() - begun
    begun = clock()
    for _ in range(BATCH_CALLS):
        state = jax.block_until_ready(advance(state, *arguments))[0]
    rate = BATCH_CALLS * rollouts * program.size * count / (clock() - begun)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    answer.send(
        {
            "steps_per_second": rate,
            "first_call_seconds": compiling,
            "peak_mebibytes": peak,
            "device": str(jax.devices()[0].device_kind),
        }
    )


def batch_rows(device: str) -> dict[str, dict[str, Any]]:
    """Measure every number of seeds in one call, and print it."""
    found = {}
    for count in BATCHES[device]:
        found[f"{device} {count}"] = measured = in_fresh_process(train_batch, count, device)
        print(
            f"{count} seeds in one call on {measured['device']}: "
            f"{measured['steps_per_second']:,.0f} steps a second, first call "
            f"{measured['first_call_seconds']:.1f} s, {measured['peak_mebibytes']:,.0f} MiB at most",
            flush=True,
        )
    return found


def write(results: dict[str, Any]) -> None:
    """Store what is measured so far."""
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


def main() -> None:
    """Measure the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", choices=[[], *ROWS, SEEDS_ROW, BATCHES_ROW])
    parser.add_argument("--device", choices=BATCHES, default="cpu", help="of the row `batches`")
    parser.add_argument("--turns", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    for name in arguments.rows or (*ROWS, SEEDS_ROW, BATCHES_ROW):
        if name in {SEEDS_ROW, BATCHES_ROW}:
            several = seed_rows() if name == SEEDS_ROW else batch_rows(arguments.device)
            results[name] = {**results.get(name, {}), **several}
            write(results)
            continue
        results[name] = found = measure(ROWS[name], arguments.turns)
        print(
            f"{name}: {found['ratio']:.1f} times ({found['least']:.1f} to {found['most']:.1f}), "
            f"aim {found['aim']}; {found['compiled_steps_per_second']:,.0f} beside "
            f"{found['library_steps_per_second']:,.0f} steps a second; "
            f"first chunk {found['first_chunk_seconds']:.1f} s",
            flush=True,
        )
        write(results)


if __name__ == "__main__":
    main()
