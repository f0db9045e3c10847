"""A run that is measured trains the same numbers, and no fault of a measurement ends it."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import psutil
import pytest
from finished_runs import Finished, finish, prepared

from rlexp.app.commands.look.show import RunDetails, ShowPart, show
from rlexp.app.execution.run_process import execute
from rlexp.app.execution.system_sampler import SystemSampler, read_gpus, read_processes
from rlexp.records.events import Event
from rlexp.records.system_metrics import SystemMeasurement
from rlexp.store.runs import read_run
from rlexp.store.system_metrics import read_all_measurements

MEASURED = "budget.system_metrics_seconds=1"
OF_THE_CLOCK = {"time", "seconds", "pid", "host"}
"""Fields of events that differ between two executions of a run."""
WORKING_CHILD = """
import time
end = time.process_time() + 0.5
while time.process_time() < end: pass
print("done", flush=True)
input()
"""
"""A program that uses half a second of processor time, and then waits."""


@pytest.fixture
def child() -> Iterator["subprocess.Popen[bytes]"]:
    """A child process that has worked, and waits."""
    with subprocess.Popen(
        [sys.executable, "-c", WORKING_CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        yield process
        process.kill()


def numbers(run: Finished) -> list[dict[str, object]]:
    """The events of a run without the values of the clock and of the process."""
    record = read_run(run.paths, measurements=True).record
    events: list[Event] = [*record.measurements, *record.evaluations]
    events += [record.final] if record.final else []
    return [
        {f.name: getattr(event, f.name) for f in fields(event) if f.name not in OF_THE_CLOCK}
        for event in events
    ]


def without_rates(events: list[dict[str, object]]) -> list[dict[str, object]]:
    """The events without the rates that the library measures with the clock."""
    clock = ("time/fps", "time/time_elapsed")
    return [
        {**event, "metrics": {k: v for k, v in event["metrics"].items() if k not in clock}}  # type: ignore[attr-defined]
        if "metrics" in event
        else event
        for event in events
    ]


def test_a_measured_run_is_the_same_run_with_the_same_numbers(tmp_path: Path) -> None:
    """The identity, the weights and all events are equal with measurements and without."""
    silent, measured = finish(tmp_path / "a"), finish(tmp_path / "b", MEASURED)
    first, second = (read_run(run.paths).record for run in (silent, measured))
    assert first.spec.id == second.spec.id
    assert first.weights is not None
    assert first.weights == second.weights
    assert without_rates(numbers(silent)) == without_rates(numbers(measured))
    assert [] == read_all_measurements(silent.paths)
    assert not silent.paths.attempt(1).system_metrics.exists()


def test_a_run_shows_what_it_used(tmp_path: Path) -> None:
    """A run that is shorter than the interval has one measurement, and `show` sums it up."""
    run = finish(tmp_path, MEASURED)
    measurements = read_all_measurements(run.paths)
    assert measurements
    assert read_run(run.paths).record.step == measurements[-1].step
    shown = show(run.name, ShowPart.RESULT, run.study)
    assert isinstance(shown, RunDetails)
    assert shown.system is not None
    assert len(measurements) == shown.system.measurements
    assert max(m.memory_bytes for m in measurements) == shown.system.peak_memory_bytes
    assert shown.problem is None


def test_a_measurement_that_cannot_be_written_ends_no_run(tmp_path: Path) -> None:
    """A folder in the place of the file makes each write fail, and the run completes."""
    run = prepared(tmp_path, MEASURED)
    run.paths.attempt(1).system_metrics.mkdir()
    execute([str(run.paths.folder), "1"])
    assert read_run(run.paths).record.score is not None


def test_the_process_tree_is_measured(child: "subprocess.Popen[bytes]") -> None:
    """The time and the memory of a child process count, and the time stays when it has ended."""
    assert child.stdin is not None
    assert child.stdout is not None
    own = sum(psutil.Process().cpu_times()[:2])
    child.stdout.readline()
    with_child = read_processes(psutil.Process())
    assert with_child.processes >= 2
    assert with_child.memory_bytes > psutil.Process().memory_info().rss
    assert with_child.processor_seconds >= own + 0.5
    child.kill()
    child.wait()
    assert read_processes(psutil.Process()).processor_seconds >= own + 0.5


def test_a_sampler_measures_at_once_when_it_is_stopped() -> None:
    """The last measurement has the last step, and the thread has ended after `stop`."""
    written: list[SystemMeasurement] = []
    sampler = SystemSampler(3600.0, lambda: 7, written.append)
    sampler.stop()
    assert [7] == [m.step for m in written]
    assert "system metrics" not in {thread.name for thread in threading.enumerate()}


def test_a_failing_measurement_stays_in_its_thread(capfd: pytest.CaptureFixture[str]) -> None:
    """An error of any kind ends the measurements without a word."""

    def fail() -> int:
        raise RuntimeError("no step")

    SystemSampler(3600.0, fail, lambda _: None).stop()
    assert ("", "") == capfd.readouterr()


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in the place of `nvidia-smi` with two GPUs and one that reports no numbers."""
    program = tmp_path / "nvidia-smi"
    program.write_text(
        "#!/bin/sh\n"
        "echo '0, GPU-aa01, 97 %, 2048 MiB, 4096 MiB'\n"
        "echo '1, GPU-bb02, 0 %, 0 MiB, 4096 MiB'\n"
        "echo '2, GPU-cc03, [N/A], [N/A], 4096 MiB'\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return program


@pytest.mark.parametrize(
    ("visible", "expected"), [(None, [0, 1]), ("1", [1]), ("GPU-aa", [0]), ("", []), ("-1", [])]
)
def test_only_visible_gpus_are_measured(
    driver: Path, monkeypatch: pytest.MonkeyPatch, visible: str | None, expected: list[int]
) -> None:
    """`CUDA_VISIBLE_DEVICES` limits the GPUs; one that reports no numbers is left out."""
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    gpus = list(read_gpus())
    assert expected == [gpu.index for gpu in gpus]
    if gpus and gpus[0].index == 0:
        assert (97.0, 2 << 30, 4 << 30) == (
            gpus[0].utilization_percent,
            gpus[0].memory_bytes,
            gpus[0].memory_total_bytes,
        )


def test_a_failing_driver_counts_as_no_gpu(driver: Path) -> None:
    """A driver that fails gives no GPU and no error."""
    driver.write_text("#!/bin/sh\nexit 9\n")
    assert [] == list(read_gpus())
