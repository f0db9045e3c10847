"""`rlexp sweep` beside `rl_zoo3 --optimize`: the same algorithm, space, trials and steps.

Prints processor time and wall-clock at equal trials, turn by turn, and the true score (fresh seeds, `--seeds` of them) that each
reaches at equal environment steps; writes `benchmarks/results/sweep.json`. Run it on a machine
that does nothing else: `python benchmarks/sweep.py`, or with sizes of its own:
`python benchmarks/sweep.py --trials 8 --steps 4000`.
"""

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from command_times import Spent, mean_with_interval, ratios, spend
from run import PEER, RLEXP

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "sweep.json"
COMMON = (
    "algorithm=ppo",
    "environment=cartpole",
    "environment.vector.count=8",
    "budget.evaluation_every=null",
)
SPACE = (
    "algorithm.batch_size=choice(32,64,128,256)",
    "sweep.space.algorithm.n_steps=[32,64,128,256]",
    "algorithm.gamma=tag(flipped_log, interval(0.97, 0.9999))",
    "algorithm.gae_lambda=tag(flipped_log, interval(0.9, 0.9999))",
    "algorithm.learning_rate=tag(log, interval(1e-5, 0.002))",
    "algorithm.ent_coef=tag(log, interval(1e-8, 0.1))",
    "algorithm.clip_range=choice(0.1,0.2,0.3,0.4)",
    "algorithm.n_epochs=choice(1,5,10,20)",
    "algorithm.max_grad_norm=interval(0.3, 2.0)",
    "agent.network=choice([64],[64,64])",
    "agent.activation=choice(tanh,relu)",
)
START = ("algorithm.n_steps=64",)
"""The default of 2,048 steps on eight environments is more than a trial has."""
Numbers = dict[str, Any]


def peer(folder: Path, trials: int, steps: int, jobs: int, seed: int) -> tuple[Spent, Numbers]:
    """What rl-baselines3-zoo took, and its best trial."""
    command = [
        *(str(PEER / "bin" / "python"), str(HERE / "peer_sweep.py")),
        *("--algo", "ppo", "--env", "CartPole-v1", "-n", str(steps), "--seed", str(seed)),
        *("-optimize", "--n-trials", str(trials), "--n-jobs", str(jobs), "--verbose", "0"),
        *("--sampler", "tpe", "--pruner", "none", "--device", "cpu"),
    ]
    spent = spend(command, folder)
    line = next(line for line in spent.output.splitlines() if line.startswith("BEST "))
    best: Numbers = json.loads(line.removeprefix("BEST "))
    return spent, best


def own(folder: Path, trials: int, steps: int, seed: int, *overrides: str) -> tuple[Spent, Path]:
    """What a search of rlexp took, and the folder of its records."""
    command = [*RLEXP, "sweep", *COMMON, *START, *SPACE, f"budget.steps={steps}"]
    command += ["budget.final_episodes=5"]
    command += [f"sweep.trials={trials}", f"seeds.root={seed}", "experiment=own", *overrides]
    spent = spend([*command, "--until", "search", "-q"], folder)
    return spent, folder / "runs" / "own"


def overrides_of(params: Mapping[str, Any]) -> list[str]:
    """The best trial of rl-baselines3-zoo as overrides of rlexp."""
    network = {"tiny": "[64]", "small": "[64,64]"}[params["net_arch"]]
    return [
        f"algorithm.batch_size={2 ** params['batch_size_pow']}",
        f"algorithm.n_steps={2 ** params['n_steps_pow']}",
        f"algorithm.gamma={1 - params['one_minus_gamma']!r}",
        f"algorithm.gae_lambda={1 - params['one_minus_gae_lambda']!r}",
        *(
            f"algorithm.{key}={params[key]!r}"
            for key in ("learning_rate", "ent_coef", "clip_range", "n_epochs", "max_grad_norm")
        ),
        f"agent.network={network}",
        f"agent.activation={params['activation_fn']}",
    ]


def true_score(folder: Path, overrides: list[str], seeds: int, steps: int) -> float:
    """Mean score of runs on fresh test seeds, equal for both tools."""
    command = [*RLEXP, "run", *overrides, f"seeds.test={seeds}", "seeds.root=77", "--json", "-q"]
    if "--from-sweep" in overrides:
        command += ["experiment=own-again"]
    else:
        command += [*COMMON, f"budget.steps={steps}", "experiment=peer-again"]
    output = spend([*command, "budget.final_episodes=50"], folder).output
    return statistics.fmean(json.loads(output)["summary"]["cells"][0]["scores"].values())


@dataclass(frozen=True, slots=True)
class Turn:
    """One comparison of both tools.

    Attributes:
        one_job: What the peer took with one job.
        two_jobs: What the peer took with two jobs; None if that was not asked for.
        ours: What our search took.
        scores: The true scores that the peer and that we reached at equal environment steps.
        runs: Our runs at equal environment steps.
    """

    one_job: Spent
    two_jobs: Spent | None
    ours: Spent
    scores: tuple[float, float]
    runs: int


def measure(arguments: argparse.Namespace, seed: int) -> Turn:
    """Compare both tools once."""
    trials, steps = arguments.trials, arguments.steps
    folder = Path(tempfile.mkdtemp(prefix="rlexp-sweep-"))
    try:
        folders = {name: folder / name for name in ("one", "two", "wall", "equal")}
        for subfolder in folders.values():
            subfolder.mkdir()
        one_job, best = peer(folders["one"], trials, steps, 1, seed)
        two_jobs, _ = (
            peer(folders["two"], trials, steps, 2, seed) if arguments.jobs else (None, None)
        )
        ours, _ = own(folders["wall"], trials, steps, seed, "seeds.tuning=1")
        # One tuning seed for each and four more for the best: as many runs as the peer's trials.
        promoted = max(trials // 14, 1)
        screened = trials - 4 * promoted
        share = f"sweep.promoted={promoted / screened:.6f}"
        _, records = own(folders["equal"], screened, steps, seed, "seeds.tuning=5", share)
        ended = list(records.glob("*/attempts/1/events.jsonl"))
        theirs = true_score(folders["equal"], overrides_of(best["params"]), arguments.seeds, steps)
        found = true_score(folders["equal"], ["--from-sweep", "own"], arguments.seeds, steps)
        return Turn(one_job, two_jobs, ours, (theirs, found), len(ended))
    finally:
        shutil.rmtree(folder)


def row(turns: Sequence[Turn], seeds: int) -> Numbers:
    """The medians of the ratios, and the mean difference of the true scores with its interval."""
    ours = [turn.ours for turn in turns]
    two_jobs = [turn.two_jobs for turn in turns if turn.two_jobs is not None]
    return {
        "one_job": ratios([turn.one_job for turn in turns], ours),
        "two_jobs": ratios(two_jobs, ours) if two_jobs else None,
        "fresh_seeds": seeds,
        "rl_zoo3_true_scores": [turn.scores[0] for turn in turns],
        "rlexp_true_scores": [turn.scores[1] for turn in turns],
        "true_score_gained": mean_with_interval([b - a for a, b in (t.scores for t in turns)]),
        "rlexp_runs": [turn.runs for turn in turns],
    }


def main() -> None:
    """Measure one size several times, and keep results of other sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=8)
    parser.add_argument("--steps", type=int, default=4_000, help="of a run")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=20, help="fresh ones of the true score")
    parser.add_argument("--jobs", action="store_true", help="time the peer with two jobs, too")
    arguments = parser.parse_args()
    if not (PEER / "bin" / "python").exists():
        sys.exit("the peer is not installed: python benchmarks/run.py peer")
    RESULTS.parent.mkdir(exist_ok=True)
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    turns = [measure(arguments, seed) for seed in range(arguments.repeats)]
    results[f"{arguments.trials} trials of {arguments.steps} steps"] = row(turns, arguments.seeds)
    print(json.dumps(row(turns, arguments.seeds), indent=1))
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
