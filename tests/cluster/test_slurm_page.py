"""The commands of the page about the first hour on Slurm work on a real cluster of one node.

Started by `make test-services`, which sets `RLEXP_CLUSTER_TESTS`.
"""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from last_words import last_words
from shown_commands import blocks
from slurm_cluster import missing_program, running_cluster, wait_until

pytestmark = [
    pytest.mark.skipif(not os.environ.get("RLEXP_CLUSTER_TESTS"), reason="make test-services"),
    pytest.mark.skipif(missing_program() is not None, reason=f"{missing_program()} is not here"),
    pytest.mark.timeout(900),
]
PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "slurm.md").read_text()
COMMANDS = [
    shlex.split(line)[1:]
    for line in "".join(blocks(PAGE, "bash cluster")).splitlines()
    if line.startswith("rlexp ")
]
SMALL = (
    *("executor.partition=low", "executor.memory=500M", "executor.time=20", "executor.poll=1"),
    *("executor.runs_per_job=2", "algorithm=a2c", "budget.steps=512", "budget.final_episodes=2"),
)


def test_the_first_hour_works_on_slurm(tmp_path: Path) -> None:
    """One run and several runs of a job complete, and logs and records name the jobs."""
    with running_cluster() as cluster:
        variables = {
            **os.environ,
            "SLURM_CONF": str(cluster.configuration),
            "OMP_NUM_THREADS": "1",
        }

        def give(*words: str) -> str:
            command = [sys.executable, "-m", "rlexp", *words]
            process = subprocess.run(
                command,
                cwd=tmp_path,
                env=variables,
                capture_output=True,
                text=True,
                timeout=400,
                check=False,
            )
            assert 0 == process.returncode, process.stdout + process.stderr
            return process.stdout

        for words in COMMANDS:
            seeds = ("seeds.test=4",) if "seeds.test=200" in words else ()
            give(*(last_words(*words, *SMALL, *seeds) if words[0] == "run" else words))
        wait_until(lambda: not cluster.ask("squeue", "-h"), seconds=200)
        logs = give("logs", "many").splitlines()
        assert 2 == len({line for line in logs if line.startswith("rlexp: job ")})
        assert "4 of 4" in give("show", "many")
        (attempt,) = (tmp_path / "runs" / "one").glob("*/attempts/1")
        assert '"SLURM_JOB_ID": "' in (attempt / "provenance.json").read_text()
        files = [path for path in attempt.parents[1].rglob("*") if path.is_file()]
        assert 10 <= len(files) <= 20
