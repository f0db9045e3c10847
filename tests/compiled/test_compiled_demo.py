"""`rlexp demo --compiled` solves CartPole with five seeds, and a second call runs nothing."""

import subprocess
import sys
from pathlib import Path


def test_five_seeds_solve_cartpole(tmp_path: Path) -> None:
    """Every seed reaches the threshold of the task; the same command again has the same answer."""
    command = [sys.executable, "-m", "rlexp", "demo", "--compiled"]
    first, second = (
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
        for _ in range(2)
    )
    assert "Reached the task's threshold of 475: compiled ppo 5 of 5." in first
    assert (tmp_path / "reports" / "compiled-cartpole" / "report.html").exists()
    answer = "compiled ppo scores 500.00 on CartPole-v1 with 5 seeds"
    assert answer in first
    assert answer in second
    assert "nothing to run, every requested run has ended" in second
