"""A candidate whose trainings and scores are handed out to workers."""

from pathlib import Path

import pytest
from in_full import long
from studies import new_study, wait_until

from rlexp.store.layout import ExperimentPaths
from rlexp.store.registers.streams import read_stream

BEGIN = (
    *("propose", "s", "--begin", "algorithm=ppo", "environment=cartpole", "budget.steps=256"),
    *("budget.evaluation_every=null", "budget.final_episodes=5", "algorithm.n_steps=128"),
    *("seeds.tuning=4", "--alpha", "0.9", "--candidates", "2"),
)
CANDIDATE = ("algorithm.learning_rate=3e-2", "algorithm.n_epochs=20", "executor.workers=2")


@long
@pytest.mark.timeout(600)
def test_workers_train_and_score_a_candidate(tmp_path: Path) -> None:
    """With `executor=pull`, one worker trains, another one scores, and the register has its scores."""
    with new_study(tmp_path / "study", warm=True) as study:
        code, output = study.give(*BEGIN)
        assert code == 0, output
        paths = ExperimentPaths(study.folder / "runs" / "s")
        command = study.start("propose", "s", *CANDIDATE, "executor=pull")
        # A worker that starts before the command has the lock leaves after some seconds.
        wait_until(lambda: any(paths.orders.glob("*")))
        training = study.start("worker", "s", "--idle", "60")
        wait_until(lambda: any(paths.scoring_orders.glob("*.json")), 120)
        scoring = study.start("worker", "s", "--scores", "--idle", "60")
        assert command.wait(300) in {0, 5, 6}
        assert training.wait(120) == 0
        assert scoring.wait(120) == 0
        register = read_stream(paths)
        answers = {path.stem for path in paths.scoring_answers.iterdir()}
        assert answers == {scored.run for scored in register.scored.values()}
        assert 1 in register.decisions
        code, output = study.give("verify", "s")
        assert code == 0, output
