"""Calls in the kernel of a notebook: progress, interrupts, kills, event loops and threads."""

import json
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from in_full import long
from kernels import QUICK, Kernel, kernel_in, wait_until

from rlexp.store.layout import Layout
from rlexp.store.locks.lease import is_held

WORDS = (
    *("algorithm=ppo", "environment=cartpole", "algorithm.n_steps=64", "budget.steps=1024"),
    *("budget.evaluation_every=null", "seeds.test=4", "executor.workers=2"),
)
SWEEP_WORDS = (
    *("algorithm=ppo", "environment=cartpole", "algorithm.n_steps=64", "budget.steps=1024"),
    *("algorithm.gamma=interval(0.9, 0.99)", "tuner=random", "pruner=none", "sweep.trials=4"),
    *("seeds.tuning=2", "seeds.selection=1", "seeds.test=2", "executor.workers=2"),
)
SCORES = "print({s: v for c in rlexp.show(%r).phases[0].cells for s, v in c.scores.items()})"
WINNER = "best = rlexp.best(%r); print(best.trial, [s.scores for s in best.scores])"


def run_of(experiment: str, options: str = "probe=False") -> str:
    """A call that trains an experiment."""
    return f"rlexp.run(*{WORDS!r}, 'experiment={experiment}', {options})"


def sweep_of(experiment: str) -> str:
    """A call that tunes hyperparameters."""
    return f"rlexp.sweep(None, *{SWEEP_WORDS!r}, 'experiment={experiment}', probe=False)"


def with_seconds(seconds: float) -> str:
    """A cell that lets every quick run take some seconds."""
    settings = json.dumps({"seconds": seconds})
    return f"import os; os.environ['RLEXP_QUICK'] = {settings!r}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the kernel; each test has an experiment of its own."""
    return tmp_path_factory.mktemp("notebook")


@pytest.fixture(scope="module")
def shared_kernel(folder: Path) -> Iterator[Kernel]:
    """A kernel in which runs train nothing."""
    with kernel_in(folder) as started:
        assert not started.run(QUICK).error
        yield started


@pytest.fixture
def kernel(shared_kernel: Kernel) -> Kernel:
    """The kernel, with runs that take no time."""
    shared_kernel.run(with_seconds(0.0))
    return shared_kernel


def attempts(folder: Path, name: str) -> int:
    """Number of attempts that have begun."""
    return len(list((folder / "runs" / name).glob("*/attempts/*/events.jsonl")))


def assert_nothing_left(kernel: Kernel, folder: Path, name: str) -> None:
    """No process of runs and no lock is left."""
    assert [] == kernel.process.children(recursive=True)
    assert not is_held(Layout(folder / "runs").experiment(name).lock)


def test_progress_is_shown_in_place(kernel: Kernel) -> None:
    """A call shows the plan, progress that replaces itself, and its result; repeats change nothing."""
    kernel.run(with_seconds(1.0))
    output = kernel.run(run_of("shown"))
    plan, progress, result = output.displays.values()
    assert "4 runs × 1,024 environment steps" in plan
    assert "4/4 done, 0 waiting" in progress
    assert "4 of 4 runs" in result
    assert "rlexp show shown" in result
    assert output.updates
    (repeated,) = kernel.run(run_of("shown")).displays.values()
    assert "nothing to run" in repeated


def test_an_observer_takes_the_place_of_the_display(kernel: Kernel) -> None:
    """With `observer=`, the cell shows nothing but the result."""
    kernel.run("from rlexp.app.observer import SilentObserver")
    call = run_of("silent", "probe=False, observer=SilentObserver()")
    (result,) = kernel.run(call).displays.values()
    assert "4 of 4 runs" in result


def test_a_mistake_is_one_line(kernel: Kernel) -> None:
    """A mistake of the user shows one line, without a traceback."""
    output = kernel.run("rlexp.run('algorithm=poo')")
    assert "ConfigError" == output.error
    assert "\n" not in output.traceback
    assert "ppo" in output.traceback


def test_an_interrupt_leaves_nothing_behind_and_the_call_continues(
    kernel: Kernel, folder: Path
) -> None:
    """An interrupt ends the runs in order; the same cell completes them with the same scores."""
    kernel.run(with_seconds(30.0))
    output = kernel.interrupt_when(run_of("cut"), lambda: attempts(folder, "cut") == 2)
    assert "KeyboardInterrupt" == output.error
    assert "rlexp/executors" not in output.traceback
    assert_nothing_left(kernel, folder, "cut")
    states = kernel.run("print([r.state for r in rlexp.ls('cut').rows])").text
    assert 2 == states.count("interrupted")
    kernel.run(with_seconds(0.0))
    for name in ("cut", "whole"):
        assert not kernel.run(run_of(name)).error
    assert kernel.run(SCORES % "cut").text == kernel.run(SCORES % "whole").text


def test_an_interrupted_sweep_continues(kernel: Kernel, folder: Path) -> None:
    """A sweep that was interrupted in its search has the same winner as an undisturbed one."""
    kernel.run(with_seconds(5.0))
    output = kernel.interrupt_when(sweep_of("search"), lambda: attempts(folder, "search") > 1)
    assert "KeyboardInterrupt" == output.error, output.traceback
    assert_nothing_left(kernel, folder, "search")
    kernel.run(with_seconds(0.0))
    for name in ("search", "undisturbed"):
        assert not (output := kernel.run(sweep_of(name))).error, output.traceback
    assert kernel.run(WINNER % "search").text == kernel.run(WINNER % "undisturbed").text


def test_calls_in_threads_of_an_event_loop(kernel: Kernel) -> None:
    """Three experiments are trained in threads at once, each with its own settings."""
    cell = f"""
import asyncio
async def train(steps):
    words = [word for word in {WORDS!r} if "budget.steps" not in word]
    named = [f"budget.steps={{steps}}", f"experiment=of-{{steps}}"]
    return await asyncio.to_thread(rlexp.run, *words, *named, probe=False)
outcomes = await asyncio.gather(*(train(64 * k) for k in range(1, 4)))
print([(o.complete, {{r.steps for r in o.summary.runs}}) for o in outcomes])
"""
    output = kernel.run(cell)
    assert "[(True, {64}), (True, {128}), (True, {192})]\n" == output.text, output.traceback


def test_a_second_thread_is_refused(kernel: Kernel, folder: Path) -> None:
    """While a thread trains an experiment, another call for it says so in one line."""
    kernel.run(with_seconds(5.0))
    kernel.run(f"""
import threading
first = threading.Thread(target=lambda: {run_of("taken")})
first.start()
""")
    wait_until(lambda: attempts(folder, "taken") > 0)
    output = kernel.run(run_of("taken"))
    expected = "experiment taken is in use by another call in this process; wait for it or stop it"
    assert expected in output.traceback
    kernel.run("first.join()")
    assert_nothing_left(kernel, folder, "taken")


def test_a_killed_kernel_leaves_no_process(tmp_path: Path) -> None:
    """Runs end with a kernel that is killed; the same cell in a new kernel completes them."""
    with kernel_in(tmp_path) as killed:
        killed.run(QUICK + with_seconds(30.0))
        children = killed.kill_when(run_of("first"), lambda: attempts(tmp_path, "first") == 2)
        assert children
        assert [] == psutil.wait_procs(children, timeout=30)[1]
    with kernel_in(tmp_path) as fresh:
        fresh.run(QUICK)
        assert "4 of 4 runs" in fresh.run(run_of("first")).html


@long
def test_an_interrupted_training_has_the_numbers_of_an_undisturbed_one(tmp_path: Path) -> None:
    """Training that was interrupted continues from a checkpoint and ends with the same scores."""
    words = (
        *("algorithm=ppo", "environment=cartpole", "budget.steps=30000", "seeds.test=2"),
        *("algorithm.n_steps=64", "budget.evaluation_every=10000", "executor.workers=2"),
    )
    call = f"rlexp.run(*{words!r}, 'experiment=%s', probe=False)"
    with kernel_in(tmp_path) as kernel:
        kernel.run("import rlexp")

        def is_evaluated() -> bool:
            # Before the end of the first rollout there is no state to continue from.
            journals = tmp_path.glob("runs/cut/*/attempts/1/events.jsonl")
            return any('"evaluated"' in journal.read_text() for journal in journals)

        output = kernel.interrupt_when(call % "cut", is_evaluated)
        assert "KeyboardInterrupt" == output.error
        assert_nothing_left(kernel, tmp_path, "cut")
        assert list(tmp_path.glob("runs/cut/*/checkpoints/*"))
        assert not kernel.run(call % "cut").error
        assert not kernel.run(call % "whole").error
        assert kernel.run(SCORES % "cut").text == kernel.run(SCORES % "whole").text
