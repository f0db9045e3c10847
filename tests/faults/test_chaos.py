"""Random kills and signals change neither the runs nor the choice nor the report of a command.

Each test runs a command undisturbed, then again while runs, server and command are killed, paused
and signalled at random moments, until the command ends by itself. By default that is a small sweep,
disturbed for a few seconds in forks of a warm process, with the same draws each time.
`RLEXP_CHAOS_SECONDS` sets how long all tests together disturb (`make test-services`: half an hour):
then commands are processes of their own, runs are longer, and the draws differ each time.
`RLEXP_CHAOS_SEED` sets the seed of the draws; a failure prints its seed.
"""

import os
import random
import time
from collections import Counter
from itertools import count
from pathlib import Path

import pytest
from chaos import FIRST, Chaos
from in_full import IN_FULL
from last_words import last_words
from marked_commands import LONGEST, MarkedCommand
from outcomes import check_done_once, check_same, continuations, outcome
from studies import StudyFolder, new_study

from rlexp.store.layout import ExperimentPaths

LONG = IN_FULL or "RLEXP_CHAOS_SECONDS" in os.environ
"""Whether commands of the usual length are disturbed, each as a process of its own."""
SECONDS = float(os.environ.get("RLEXP_CHAOS_SECONDS", "60" if LONG else "3"))
"""Seconds of disturbance in all tests together; the commands then finish undisturbed."""
DEFAULT_SEED = random.SystemRandom().randrange(2**32) if LONG else 0
SEED = int(os.environ.get("RLEXP_CHAOS_SEED", str(DEFAULT_SEED)))
"""Seed of the draws: the same each day, or a random one in long tests."""
PAUSE = 2.0 if LONG else 0.5
"""Maximum seconds between two disturbances."""
NAME = "x"
SWEEP = (
    "sweep",
    "algorithm=ppo",
    "environment=cartpole",
    "algorithm.n_steps=64",
    "algorithm.learning_rate=tag(log, interval(1e-4, 1e-2))",
    "algorithm.n_epochs=int(interval(2, 6))",
    "budget.steps=1536",
    "budget.evaluation_every=256",
    "budget.evaluation_episodes=2",
    "budget.final_episodes=3",
    "budget.checkpoint_every=128",
    "tuner=tpe",
    "tuner.startup=3",
    "sweep.lag=2",
    "sweep.finalists=2",
    "seeds.tuning=2",
    "seeds.selection=1",
    "seeds.test=2",
    "executor.workers=2",
    f"experiment={NAME}",
)
UNPRUNED = ("sweep.trials=3",)
PRUNED = ("sweep.trials=6", "pruner=median", "pruner.startup_trials=2")
SHORT = (
    *("budget.steps=768", "sweep.trials=3", "pruner.startup_trials=1", "seeds.tuning=1"),
    "seeds.test=1",
)
RUN = (
    "run",
    "agent.network=[16]",
    "algorithm.buffer_size=600",
    "algorithm.batch_size=32",
    "environment.vector.normalise_observations=true",
    "environment.vector.normalise_rewards=true",
    "budget.evaluation_episodes=2",
    "budget.final_episodes=3",
    "seeds.test=2",
    "executor.workers=2",
    f"experiment={NAME}",
)
DQN = (
    "algorithm=dqn",
    "environment=cartpole",
    "algorithm.target_update_interval=100",
    "budget.steps=4000",
    "budget.evaluation_every=1000",
    "budget.checkpoint_every=300",
)
SAC = (
    "algorithm=sac",
    "environment=pendulum",
    "algorithm.learning_starts=50",
    "budget.steps=700",
    "budget.evaluation_every=200",
    "budget.checkpoint_every=100",
)


CASES: dict[str, tuple[str, ...]] = {
    "pruned sweep": tuple(last_words(*SWEEP, *PRUNED, *(() if LONG else SHORT)))
}
"""Commands that are disturbed, one after the other."""
if SECONDS > 300:
    CASES |= {"sweep": (*SWEEP, *UNPRUNED), "dqn": (*RUN, *DQN), "sac": (*RUN, *SAC)}


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 3 * LONGEST)
@pytest.mark.parametrize("case", CASES)
def test_chaos_changes_nothing(tmp_path: Path, case: str) -> None:
    """A command that is killed at random several times ends like an undisturbed one."""
    arguments = CASES[case]
    with new_study(tmp_path / "control", warm=not LONG) as study:
        MarkedCommand(study, arguments).give()
        control = outcome(study, NAME)
    draw, until = random.Random(f"{SEED} {arguments}"), time.monotonic() + SECONDS / len(CASES)
    strikes: Counter[str] = Counter()
    for turn in count():
        with new_study(tmp_path / f"turn {turn}", warm=not LONG) as study:
            paths = ExperimentPaths(study.folder / "runs" / NAME)
            chaos = Chaos(MarkedCommand(study, arguments), paths, draw, until, PAUSE)
            chaos.story.append(f"RLEXP_CHAOS_SEED={SEED}, in {study.folder}")
            with chaos.annotated_failures():
                chaos.drive()
                check_disturbed(chaos, study)
                check_done_once(study, NAME)
                check_same(control, outcome(study, NAME))
                code, output = study.give("verify", NAME)
                assert code == 0, output
            strikes += chaos.strikes
        if time.monotonic() > until:
            break
    print(f"RLEXP_CHAOS_SEED={SEED}: {dict(strikes)}")


def check_disturbed(chaos: Chaos, study: StudyFolder) -> None:
    """Check that a run and the command were killed, and that a run continued from a checkpoint."""
    assert set(FIRST) <= set(chaos.strikes)
    assert list(continuations(study, NAME)), "no run went on from a checkpoint"
