"""The server process imports before forking what runs need, and nothing else."""

import subprocess
import sys

from rlexp.app.execution.launch_settings import PRELOAD

LOOK = """
import sys
from rlexp.executors.server import _import
_import(sys.argv[1:])
print("stable_baselines3" in sys.modules, "tensorboard" in sys.modules)
import tensorboard
"""


def test_a_library_that_no_run_needs_is_not_imported() -> None:
    """stable-baselines3 is imported without TensorBoard, which environments may still import."""
    command = [sys.executable, "-c", LOOK, *PRELOAD]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "True False\n"), done.stderr
