"""MLflow's library sends nothing about its use and prints nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
from pathlib import Path
from rlexp.trackers.mlflow_service import make_client
from rlexp.trackers.mlflow_uri import MLflowLocation
file = Path(sys.argv[1])
make_client(MLflowLocation(f"sqlite:///{file}", file), 10.0, "unique")
from mlflow.telemetry.client import get_telemetry_client
print(get_telemetry_client())
"""
TESTING = ("CI", "GITHUB_ACTIONS", "PYTEST_CURRENT_TEST", "PYTEST_VERSION", "DO_NOT_TRACK")
"""Variables by which MLflow recognises tests and then sends nothing by itself."""


def test_a_client_sends_nothing_about_its_use(tmp_path: Path) -> None:
    """A process that makes a client and a database has no telemetry, and its output is empty."""
    pytest.importorskip("mlflow")
    variables = {k: v for k, v in os.environ.items() if k not in TESTING and "MLFLOW" not in k}
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "mlflow.db")],
        env=variables,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ("None\n", "") == (process.stdout, process.stderr)
