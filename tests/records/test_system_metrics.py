"""Measurements of the machine survive the disk, and their summary weighs them by their time."""

from dataclasses import replace
from typing import Any

import pytest

from rlexp.errors import RecordError
from rlexp.records.system_metrics import GpuMeasurement, SystemMeasurement, summarise_usage

GPU = GpuMeasurement(
    index=1, utilization_percent=50.0, memory_bytes=2_000_000, memory_total_bytes=8_000_000
)
MEASUREMENT = SystemMeasurement(
    time=1.0,
    step=10,
    seconds=1.0,
    processor_percent=100.0,
    memory_bytes=5_000_000,
    processes=2,
    machine_processor_percent=40.0,
    machine_memory_bytes=9_000_000,
    machine_memory_percent=30.0,
    gpus=(GPU,),
)


def test_a_measurement_survives_its_json() -> None:
    """A measurement with a GPU is the same after it was written and read."""
    assert MEASUREMENT == SystemMeasurement.from_plain(MEASUREMENT.plain())


@pytest.mark.parametrize(
    "changes",
    [{"gpus": None}, {"gpus": [{"index": 1}]}, {"seconds": "1"}, {"step": float("nan")}, {"x": 1}],
)
def test_a_damaged_measurement_is_refused(changes: dict[str, Any]) -> None:
    """A line without the fields, with a text or with a NaN is no measurement."""
    with pytest.raises(RecordError):
        SystemMeasurement.from_plain({**MEASUREMENT.plain(), **changes})


def test_the_summary_weighs_measurements_by_their_time() -> None:
    """Three idle seconds after one busy second make a quarter, and the peak is the largest value."""
    idle = replace(MEASUREMENT, seconds=3.0, processor_percent=0.0, memory_bytes=1, gpus=())
    usage = summarise_usage([MEASUREMENT, idle])
    assert usage is not None
    assert (2, 25.0, 5_000_000) == (
        usage.measurements,
        usage.processor_percent,
        usage.peak_memory_bytes,
    )
    assert (50.0, 2_000_000) == (usage.gpu_utilization_percent, usage.peak_gpu_memory_bytes)


def test_no_measurement_gives_no_summary() -> None:
    """A run that was not measured has no summary, and one without a GPU has no GPU values."""
    assert summarise_usage([]) is None
    without = summarise_usage([replace(MEASUREMENT, gpus=())])
    assert without is not None
    assert (None, None) == (without.gpu_utilization_percent, without.peak_gpu_memory_bytes)


def test_trackers_get_the_names_of_mlflow() -> None:
    """The names below `system/` are those under which MLflow shows its own system metrics."""
    tracked = MEASUREMENT.tracked()
    assert 100.0 == tracked["system/process_cpu_utilization_percentage"]
    assert 5.0 == tracked["system/process_memory_usage_megabytes"]
    assert 40.0 == tracked["system/cpu_utilization_percentage"]
    assert 9.0 == tracked["system/system_memory_usage_megabytes"]
    assert 25.0 == tracked["system/gpu_1_memory_usage_percentage"]
