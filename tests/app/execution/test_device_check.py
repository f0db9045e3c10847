"""Commands refuse a device that this machine lacks, unless other machines execute the runs."""

from pathlib import Path

import pytest
from command_line import rlexp
from quick_parts import quick_parts

from rlexp.app.execution.checks import device_check
from rlexp.app.execution.checks.device_check import check_devices
from rlexp.errors import ConfigError
from rlexp.executors.local import Local
from rlexp.executors.pull import Pull

quick = pytest.fixture(autouse=True)(quick_parts)
MISSING = "compute.device=mps"
"""A device that no machine of the tests has: they run on Linux."""


@pytest.fixture(autouse=True)
def without_mps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has every device but mps."""
    monkeypatch.setattr(
        device_check, "missing_device", lambda name: "not here" if name == "mps" else None
    )


@pytest.mark.parametrize(
    "words",
    [
        ["run", MISSING],
        ["run", MISSING, "--dry-run"],
        ["sweep", "quick", MISSING],
        ["sweep", "quick", MISSING, "--dry-run"],
        ["config", "validate", MISSING],
    ],
)
def test_a_command_is_refused_and_writes_nothing(tmp_path: Path, words: list[str]) -> None:
    """A command whose runs need a missing device is refused, and leaves no file."""
    with pytest.raises(ConfigError, match=r"not here; type compute\.device=cpu, or"):
        rlexp(tmp_path, *words)
    assert [] == list(tmp_path.iterdir())


def test_the_machine_of_the_command_does_not_matter_elsewhere(tmp_path: Path) -> None:
    """With an executor on other machines, the device of this one is not checked."""
    assert 0 == rlexp(tmp_path, "run", MISSING, "executor=pull", "--dry-run").code


def local(devices: list[str | int] | None) -> Local:
    """An executor on this machine, with GPUs that runs are spread over."""
    return Local(workers=1, hang_timeout=1.0, grace=1.0, log_limit=10_000, devices=devices)


@pytest.mark.parametrize(
    ("device", "devices", "refused"),
    [
        ("cuda:1", [0, 1], True),
        ("cuda:0", [1], False),
        ("cuda", [0], False),
        ("cuda:1", None, False),
    ],
)
def test_a_run_that_shares_gpus_sees_its_first(
    device: str, devices: list[str | int] | None, *, refused: bool
) -> None:
    """Where runs are spread over GPUs, each sees one, so a higher number is refused."""
    if not refused:
        check_devices([device], local(devices))
        return
    with pytest.raises(ConfigError, match="each run sees one GPU"):
        check_devices([device], local(devices))


def test_imported_runs_have_no_device() -> None:
    """Runs of other tools name no device, and are not refused."""
    check_devices([None], local(None))
    check_devices(["mps"], Pull(workers=1, grace=1.0))


def test_a_recorded_device_is_not_advised_to_be_changed(tmp_path: Path) -> None:
    """No word changes the device of recorded runs, so only other machines or names are advised."""
    assert (
        0
        == rlexp(tmp_path, "run", MISSING, "experiment=recorded", "executor=pull", "--detach").code
    )
    for command in (["resume", "recorded"], ["run", MISSING, "experiment=recorded"]):
        with pytest.raises(ConfigError, match=r"not here; choose other machines .* another name"):
            rlexp(tmp_path, *command, "executor=local")
