"""Scores of compiled algorithms beside those of stable-baselines3, over 20 seeds a side.

`rlexp run` trains both algorithms with the same settings, and `rlexp compare` calls their mean scores
equivalent, different or undecided. The settings, budgets and margins below were fixed before the first
run of a case. The same command again continues what was interrupted.

`python benchmarks/compiled_agreement.py FOLDER`, or single cases: `python benchmarks/compiled_agreement.py
FOLDER ppo_cartpole`. `--judge` trains nothing and compares the finished cases. A case that is not
finished is named so, and one without runs in this folder keeps its row of before. Writes `benchmarks/results/compiled_agreement.json`, and the tables of
`benchmarks/README.md` and `docs/guides/compiled.md`.
"""

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "compiled_agreement.json"
PAGES = (ROOT / "benchmarks" / "README.md", ROOT / "docs" / "guides" / "compiled.md")
RLEXP = (sys.executable, "-m", "rlexp")
BEGIN, END = "<!-- scores of compiled_agreement -->\n", "<!-- end -->\n"
HEADER = (
    "| training | steps | margin | mean of stable-baselines3 | mean of compiled | difference | verdict |",
    "|---|---|---|---|---|---|---|",
)
SEEDS = 20
ROOT_SEED = 26
"""These seeds were used for nothing else, neither to choose a budget nor to look for defects."""
COMMON = (
    *(f"seeds.root={ROOT_SEED}", f"seeds.test={SEEDS}"),
    # The returns of Pendulum differ by some hundreds from episode to episode.
    "budget.final_episodes=50",
    # Five points show where two learning curves part, and cost little.
    *("budget.evaluation_every=fifth", "budget.evaluation_episodes=5"),
)
METRIC = "mean"
"""The mean counts every seed. The interquartile mean would not see that a few seeds fail on one side."""


@dataclass(frozen=True, slots=True)
class Case:
    """A training of both sides.

    Attributes:
        title: The training in words.
        algorithm: The algorithm of stable-baselines3.
        words: The task and the settings of both sides.
        steps: Environment steps of a run. The standard algorithm learns in them: runs of the tuning
            phase showed this for PPO on Acrobot and Pendulum, and for DQN. The other budgets were
            not tried.
        margin: A tenth of the range from the mean return of random actions to the return that solves
            the task, rounded down. Both are in `environment.reference` of `conf/environment`. The
            bounds of the return would be wider: -3,255 to 0 on Pendulum.
    """

    title: str
    algorithm: str
    words: tuple[str, ...]
    steps: int
    margin: float

    @property
    def labels(self) -> tuple[str, str]:
        """The labels of both sides, the standard one first."""
        return self.algorithm, f"compiled_{self.algorithm}"


CASES = {
    # The settings of rl-baselines3-zoo, with half of its steps. Its schedules follow the budget.
    "ppo_cartpole": Case(
        title="PPO on CartPole",
        algorithm="ppo",
        words=(
            *("environment=cartpole", "environment.vector.count=8", "algorithm.n_steps=32"),
            *("algorithm.batch_size=256", "algorithm.n_epochs=20", "algorithm.gamma=0.98"),
            "algorithm.gae_lambda=0.8",
            "algorithm.learning_rate={shape: linear, initial: 0.001}",
            "algorithm.clip_range={shape: linear, initial: 0.2}",
        ),
        steps=50_000,
        margin=45,  # from 22.5 to 475
    ),
    # The settings of rl-baselines3-zoo, without normalisation, which compiled algorithms refuse.
    "ppo_acrobot": Case(
        title="PPO on Acrobot",
        algorithm="ppo",
        words=(
            *("environment=acrobot", "environment.vector.count=16", "algorithm.n_steps=256"),
            *("algorithm.n_epochs=4", "algorithm.gae_lambda=0.94"),
        ),
        steps=102_400,
        margin=39,  # from -499.3 to -100
    ),
    # The settings of rl-baselines3-zoo, without gSDE, which compiled algorithms do not have.
    "ppo_pendulum": Case(
        title="PPO on Pendulum",
        algorithm="ppo",
        words=(
            *("environment=pendulum", "environment.vector.count=4", "algorithm.n_steps=1024"),
            *("algorithm.gae_lambda=0.95", "algorithm.gamma=0.9", "algorithm.learning_rate=0.001"),
        ),
        steps=102_400,
        margin=108,  # from -1,235 to -150
    ),
    # The library's defaults. After 50,000 steps, three runs of the library in the tuning phase scored
    # 186, 22 and 348, too far apart for any verdict; after 100,000 steps, every run had learned.
    "dqn_cartpole": Case(
        title="DQN on CartPole",
        algorithm="dqn",
        words=("environment=cartpole",),
        steps=100_000,
        margin=45,
    ),
    # The settings of rl-baselines3-zoo, with a quarter of its steps: SAC is slow.
    "sac_pendulum": Case(
        title="SAC on Pendulum",
        algorithm="sac",
        words=("environment=pendulum", "algorithm.learning_rate=0.001"),
        steps=5_000,
        margin=108,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What `rlexp compare` says of a case.

    Attributes:
        verdict: `equivalent`, `undecided`, `better` or `worse` of the compiled algorithm, or why there
            is none yet.
        runs: The number of runs of each label with a score.
        difference: Mean score of the compiled algorithm less that of the standard one, with its
            interval and its method. None if a run is missing.
        means: The mean score of each label, with its interval and its method. Empty if a run is
            missing.
    """

    verdict: str
    runs: Mapping[str, int] = field(default_factory=dict)
    difference: Mapping[str, Any] | None = None
    means: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def run_words(name: str) -> list[str]:
    """`rlexp run` of both sides of a case."""
    case = CASES[name]
    common = [word.replace("fifth", str(case.steps // 5)) for word in COMMON]
    words = ["run", f"algorithm={','.join(case.labels)}", *case.words, *common]
    return [*words, f"budget.steps={case.steps}", f"experiment={name}", "executor.workers=1"]


def train(name: str, folder: Path) -> None:
    """Train what is missing of a case."""
    subprocess.run([*RLEXP, *run_words(name), "--no-probe", "--quiet"], cwd=folder, check=True)


def judge(name: str, folder: Path) -> Judgement:
    """The judgement of a case; there is no verdict while a run of it is missing."""
    if not (folder / "runs" / name).is_dir():
        return Judgement(verdict="not run")
    case = CASES[name]
    words = ("compare", name, "--margin", str(case.margin), "--set", f"metric={METRIC}", "--json")
    done = subprocess.run([*RLEXP, *words], cwd=folder, check=True, capture_output=True, text=True)
    document = json.loads(done.stdout)
    scored = {label["label"]: label["scored"] for label in document["runs"]}
    runs = {label: scored.get(label, 0) for label in case.labels}
    if runs != dict.fromkeys(case.labels, SEEDS):
        counts = " and ".join(map(str, runs.values()))
        return Judgement(verdict=f"not finished, {counts} of {SEEDS} seeds", runs=runs)
    (pair,) = rows_of(document, "pairs")
    means = {str(row["label"]): row[METRIC] for row in rows_of(document, "aggregates")}
    if pair["first"] == case.algorithm:
        pair = reversed_pair(pair)
    return Judgement(
        verdict=pair["verdict"], runs=runs, difference=pair["difference"], means=means
    )


def reversed_pair(pair: Mapping[str, Any]) -> dict[str, Any]:
    """Difference and verdict of a pair, for the second label against the first."""
    given = pair["difference"]
    ends = {"low": -given["high"], "high": -given["low"], "estimate": -given["estimate"]}
    verdict = {"better": "worse", "worse": "better"}.get(pair["verdict"], pair["verdict"])
    return {"difference": {**given, **ends}, "verdict": verdict}


def rows_of(document: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """The rows of a table of a comparison, by the titles of the columns."""
    blocks = (block for part in document["parts"] for block in part["blocks"])
    (table,) = (block for block in blocks if block.get("name") == name)
    titles = [column["title"] for column in table["columns"]]
    return [dict(zip(titles, row, strict=True)) for row in table["rows"]]


def interval_text(interval: Mapping[str, Any]) -> str:
    """An estimate with its interval."""
    numbers = [f"{interval[key]:,.1f}" for key in ("estimate", "low", "high")]
    estimate, low, high = (number.replace("-", "−") for number in numbers)
    return f"{estimate} [{low}, {high}]"


def row_text(case: Case, judgement: Judgement) -> str:
    """The row of a case in the tables of the pages."""
    numbers = [""] * 3
    if judgement.difference:
        means = [interval_text(judgement.means[label]) for label in case.labels]
        numbers = [*means, interval_text(judgement.difference)]
    cells = [case.title, f"{case.steps:,}", f"{case.margin:g}", *numbers, judgement.verdict]
    return f"| {' | '.join(cells)} |"


def earlier_row(case: Case) -> str | None:
    """The row of a case in the table of the first page, or None."""
    begin = f"| {case.title} | {case.steps:,} | {case.margin:g} |"
    lines = PAGES[0].read_text().splitlines()
    return next((line for line in lines if line.startswith(begin)), None)


def write_tables(rows: list[str]) -> None:
    """Write the table into the pages, between its marks."""
    table = "".join(f"{line}\n" for line in ("", *HEADER, *rows, ""))
    between = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.DOTALL)
    for page in PAGES:
        text, count = between.subn(lambda _: f"{BEGIN}{table}{END}", page.read_text())
        if count != 1:
            raise ValueError(f"{page.name} needs one place for the table: {BEGIN}{END}")
        page.write_text(text)


def main() -> None:
    """Train, compare, print and store."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the runs lie; the same one continues")
    parser.add_argument("cases", nargs="*", choices=[[], *CASES], default=[], help="default: all")
    parser.add_argument("--judge", action="store_true", help="train nothing")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in () if options.judge else options.cases or CASES:
        train(name, options.folder)
        print(row_text(CASES[name], judge(name, options.folder)), flush=True)
    judgements = {name: judge(name, options.folder) for name in CASES}
    rows = [
        (None if judgement.runs else earlier_row(CASES[name])) or row_text(CASES[name], judgement)
        for name, judgement in judgements.items()
    ]
    print("\n".join((*HEADER, *rows)))
    RESULTS.parent.mkdir(exist_ok=True)
    before = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    stored = before | {
        name: {"case": asdict(CASES[name]), "judgement": asdict(judgement)}
        for name, judgement in judgements.items()
        if judgement.runs or name not in before
    }
    RESULTS.write_text(json.dumps(stored, indent=1) + "\n")
    write_tables(rows)


if __name__ == "__main__":
    main()
