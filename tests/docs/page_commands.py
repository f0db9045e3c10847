"""The commands of the pages, and how tests execute them.

Blocks `bash tour` and `bash readme` hold commands that tests execute as they stand (test_tours.py,
test_readme.py), the README's with fewer steps outside of `make test-long`. All other blocks of shells are executed
page by page: the guides by test_guide_commands.py, all other pages by test_page_commands.py, because two files can
be tested at the same time. Trainings get tiny budgets. A training that no later command of its page reads, because
it names no experiment, is planned: its settings are checked and its environment is built. What the page about Slurm
submits is trained here, and in jobs by tests/cluster/test_slurm_page.py.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from last_words import FEW_TRIALS, last_words
from page_workspaces import BEFORE, EMPTY, EXPERIMENTS, FILES
from pasted_commands import pasted
from shown_commands import commands, files

ROOT = Path(__file__).parents[2]
PAGES = {
    path.stem
    if path.stem != "README" or path.parent == ROOT
    else f"{path.parent.name}-README": path
    for path in (
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / folder / "README.md" for folder in ("benchmarks", "runs", "sweeps")),
    )
}
"""All pages of the site that are written by hand, by their names."""
AS_THEY_STAND = ("bash tour", "bash readme", "bash own")
"""Kinds of blocks that other tests execute as they stand."""
NOT_EXECUTED = {
    "rlexp run +benchmark=cartpole compute.device=cuda ": "needs a GPU",
    "sacct ": "needs the accounting of a Slurm cluster",
    "rsync -a login.cluster.example": "needs another machine",
    "ssh -L ": "needs another machine",
    "venv/bin/pip install torch": "downloads packages",
    "venv/bin/pip install rlexp": "downloads packages",
    "with-metaworld/bin/pip install ": "downloads packages",
    "with-metaworld/bin/rlexp ": "needs the packages of the command before",
    "optuna-dashboard ": "is a server of another package, and serves until Ctrl-C",
    "python benchmarks/baselines.py ": "needs the whole benchmark, which trains for hours",
}
"""The beginnings of all commands that no test executes, with the reason."""
SUITES = "tests/training/test_suites_train.py"
VECTOR_SWEEP = "tests/app/commands/test_vector_sweep.py"
CANDIDATES = "tests/app/streams/test_code_candidates.py"
HANDED = "tests/faults/test_propose_workers.py"
ELSEWHERE = {
    "rlexp demo": ("tests/app/commands/test_demo.py", "rlexp demo"),
    "make test": (".ci/run", "README.md"),
    "rlexp logs one": ("tests/cluster/test_slurm_page.py", "bash cluster"),
    "tmux new-session -d -s overnight 'rlexp sweep overnight'": (
        "docs/guides/tune-overnight.md",
        "\nrlexp sweep overnight\n",
    ),
    "rlexp propose loop --diff ": (CANDIDATES, '"--diff"'),
    "rlexp propose loop --worktree ": (CANDIDATES, '"--worktree"'),
    "rlexp propose loop algorithm.gamma=0.98 executor=pull": (HANDED, "executor=pull"),
    "rlexp worker loop ": (HANDED, '"worker", "s"'),
    "rlexp run agent=multi_input algorithm=sac environment=fetch_reach ": (SUITES, "=fetch_reach"),
    "rlexp run algorithm=sac environment=metaworld_mt10 ": (SUITES, "=metaworld_mt10"),
    "rlexp run algorithm=dqn environment=deep_sea_treasure ": (SUITES, "=deep_sea_treasure"),
    "rlexp sweep environment=deep_sea_treasure ": (VECTOR_SWEEP, "=deep_sea_treasure"),
}
"""Beginnings of commands that are executed elsewhere: the file that does so, and words of it.

`make test-suites` trains the environments of the last four, which need packages of their own.
"""
TINY = ("budget.steps=128", "budget.evaluation_every=64", "budget.evaluation_episodes=1")
LONGER = ("budget.steps=2048", "budget.evaluation_every=2048", "budget.evaluation_episodes=1")
"""A budget of one rollout of PPO with its default settings."""
LAST = ("budget.final_episodes=1",)
PLANNED = (
    "executor=slurm",
    "executor=ray",
    "compute.device=cuda",
    "executor=spare_cores",
    "--from-sweep",
)
PLAN = ("--dry-run", "--no-probe")


def shortened(words: Sequence[str]) -> Sequence[str]:
    """The words of a command with a tiny budget for trainings, or with `--dry-run`."""
    name, *rest = words
    if name not in {"run", "sweep"} or "--dry-run" in words:
        return _tiny_extension(words) if name == "extend" else _tiny_repetition(words)
    planned = bool(set(PLANNED) & set(words))
    if name == "sweep":
        return _tiny_sweep(words) if rest[0] == "quick" and not planned else [*words, *PLAN]
    named = any(word.startswith("experiment=") for word in rest) or "executor=pull" in words
    if named and "executor=slurm" in words:
        return shortened([word for word in words if not word.startswith(("executor", "--detach"))])
    whole_benchmark = "+benchmark=classic_control" in words and "environment=cartpole" not in words
    if not named or planned or whole_benchmark:
        return [*words, *PLAN]
    return last_words(*words, *_tiny_budget(words))


def _tiny_budget(words: Sequence[str]) -> Sequence[str]:
    """A budget of two seeds and of as few steps as the algorithms allow."""
    chosen = dict(word.split("=", 1) for word in words if "=" in word).get("algorithm", "ppo")
    algorithms = set(chosen.split(","))
    seeds = () if "seeds.test=1" in words else ("seeds.test=2",)
    benchmark = any(word.startswith("+benchmark=") for word in words)
    if algorithms <= {"ppo", "a2c"} and "ppo" in algorithms and not benchmark:
        return (*TINY, *LAST, "algorithm.n_steps=64", *seeds)
    return (*(LONGER if "ppo" in algorithms else TINY), *LAST, *seeds)


def _tiny_repetition(words: Sequence[str]) -> Sequence[str]:
    """The words of a short check whether trainings can be repeated; other words as they are."""
    if "--determinism" not in words:
        return words
    default = words[-1] == "--determinism"
    return [*words, "budget.steps=128", *(("algorithm.n_steps=64",) if default else ())]


def _tiny_extension(words: Sequence[str]) -> Sequence[str]:
    """The words of a short extension under the name that the longer one would have."""
    settings = dict(word.split("=", 1) for word in words if "=" in word)
    name = settings.get("experiment", f"{words[1]}-{settings['budget.steps']}")
    return last_words(*words, f"experiment={name}", "budget.steps=256")


def _tiny_sweep(words: Sequence[str]) -> Sequence[str]:
    """The words of a sweep of two short trials."""
    rollouts = ("algorithm.n_steps=64", "sweep.space.algorithm.n_steps=choice(32, 64)")
    return last_words(*words, *TINY, *LAST, *rollouts, *FEW_TRIALS, "seeds.test=2")


def executed(page: Path) -> list[str]:
    """The commands of a page that this test executes."""
    skipped = (*NOT_EXECUTED, *ELSEWHERE)
    shown = commands(page.read_text(), *AS_THEY_STAND)
    return [command for command in shown if not command.startswith(skipped)]


EXECUTED = {name: found for name, page in PAGES.items() if (found := executed(page))}
GUIDES = sorted(name for name in EXECUTED if PAGES[name].parent.name == "guides")
OTHER_PAGES = sorted(set(EXECUTED) - set(GUIDES))


def make_experiments(folder: Path) -> None:
    """Train the experiments that most pages name."""
    process = pasted(EXPERIMENTS, folder, received=shortened)
    assert 0 == process.returncode, (process.stdout + process.stderr)[-4000:]


def execute_page(name: str, experiments: Path, folder: Path) -> None:
    """Execute the commands of a page in a copy of the experiments, each after those before it."""
    if name == "compiled":
        pytest.importorskip("jax")
    if name in EMPTY:
        folder.mkdir()
    else:
        shutil.copytree(experiments, folder)
    for file, text in files(PAGES[name].read_text()).items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text)
    if name in FILES:
        FILES[name](folder)
    with pytest.MonkeyPatch.context() as patch:
        # Otherwise, datasets would be written into the user's folder, and be there at the next time.
        patch.setenv("MINARI_DATASETS_PATH", str(folder / "datasets"))
        process = pasted(
            BEFORE.get(name, "") + "\n".join(EXECUTED[name]), folder, received=shortened
        )
    output = process.stdout + process.stderr
    assert 0 == process.returncode, output[-4000:]
    assert "Traceback" not in output
