"""The server process imports the modules that runs need, and no others, before forking."""

import subprocess
import sys

from rlexp.app.execution.launch_settings import PRELOAD

LOOK = """
import sys
from rlexp.executors.server import _import
_import(sys.argv[1:])
print("stable_baselines3" in sys.modules, "tensorboard" in sys.modules)
print("torch._dynamo.utils" in sys.modules)
import tensorboard
"""


def test_a_library_that_no_run_needs_is_not_imported() -> None:
    """The server imports neither TensorBoard nor PyTorch's compiler; runs can still do that."""
    command = [sys.executable, "-c", LOOK, *PRELOAD]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (process.returncode, process.stdout) == (0, "True False\nFalse\n"), process.stderr
