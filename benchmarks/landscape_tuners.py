"""Tuners side by side on real landscapes, with hundreds of repeats on common draws.

`python benchmarks/landscape_tuners.py [CONTENDER …] [--repeats 200]` prints the true score of the
winner at 48, 96 and 192 runs, and its difference to random search with two standard errors: over
repeats, which says how exact the number is on these landscapes, and over landscapes, which says what to
expect of others. Each finished search is stored in `benchmarks/results/landscape_tuners.json`, and the
same command continues.
"""

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import landscapes
import numpy as np
import yaml
from landscape_baselines import Baseline, baseline_winners
from landscape_searches import SearchDraws, screened_rows, two_stage_winner
from landscape_table import Landscape, usable
from numpy.typing import NDArray

RESULTS = Path(__file__).parent / "results" / "landscape_tuners.json"
BUDGETS = landscapes.BUDGETS
BLOCK = 10
"""Repeats of a contender before the next one has its turn."""
SCREENED = 144
"""Trials that the largest budget screens."""
Search = Callable[[SearchDraws], list[float]]
"""The true score of the winner at each budget."""


def two_stages(name: str) -> Search:
    """A tuner of rlexp in two stages, with one search for all budgets."""

    def search(draws: SearchDraws) -> list[float]:
        rows = screened_rows(landscapes.part("tuner", name), draws, SCREENED)
        return [two_stage_winner(draws, rows, runs) for runs in BUDGETS]

    return search


def whole_sweeps(name: str) -> Search:
    """A tuner of rlexp that needs the engine: a sweep for each budget."""

    def search(draws: SearchDraws) -> list[float]:
        contender = landscapes.Contender(tuner=name)
        outcomes = [
            landscapes.sweep(draws.landscape, contender, runs, draws.number) for runs in BUDGETS
        ]
        return [landscapes.numbers(draws.landscape, outcome)[0] for outcome in outcomes]

    return search


def optuna(baseline: Baseline) -> Search:
    """Optuna's TPE as an ordinary user runs it."""
    return lambda draws: baseline_winners(baseline, draws, BUDGETS)


CONTENDERS: dict[str, Search] = {
    "random": two_stages("random"),
    "sobol": two_stages("sobol"),
    "cma_es": two_stages("cma_es"),
    "tpe": two_stages("tpe"),
    "smac": two_stages("smac"),
    # Trials with fewer steps: the budget decides what is suggested.
    "dehb": whole_sweeps("dehb"),
    "optuna, one seed": optuna(Baseline()),
    "optuna, five seeds": optuna(Baseline(seeds=5)),
    "optuna, hyperband": optuna(Baseline(hyperband=True)),
}
REFERENCE = "random"
TUNERS = ("random", "sobol", "cma_es", "smac", "dehb")
"""Tuners that can become the default: they need no extra package."""


def measure(name: str, tables: list[Landscape], repeats: int) -> NDArray[np.float64]:
    """True scores of a contender, of shape (repeats, landscapes, budgets); stored results are used."""
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    rows = stored.get(name, [])
    while len(rows) < repeats:
        rows.append([CONTENDERS[name](SearchDraws(table, len(rows))) for table in tables])
        # Another process may have added other contenders meanwhile.
        stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        RESULTS.write_text(json.dumps(stored | {name: rows}))
    return np.array(rows[:repeats])


def stored_scores() -> dict[str, NDArray[np.float64]]:
    """The stored true scores of every contender."""
    return {name: np.array(rows) for name, rows in json.loads(RESULTS.read_text()).items()}


def line(name: str, scores: NDArray[np.float64], reference: NDArray[np.float64]) -> str:
    """A row of the printed table."""
    gains = scores - reference
    over_repeats = gains.mean(axis=1).std(axis=0, ddof=1) / np.sqrt(len(gains))
    over_landscapes = gains.mean(axis=0).std(axis=0, ddof=1) / np.sqrt(gains.shape[1])
    cells = [
        f"{scores[:, :, k].mean():.3f} {gains[:, :, k].mean():+.3f} ± {over_repeats[k]:.3f} "
        f"± {over_landscapes[k]:.3f}"
        for k in range(len(BUDGETS))
    ]
    return f"{name:20} {len(scores):4}  " + "   ".join(cells)


def default_tuner() -> str:
    """The tuner of a sweep that names none."""
    settings = yaml.safe_load((landscapes.CONF / "sweep.yaml").read_text())
    return str(next(entry["tuner"] for entry in settings["defaults"] if "tuner" in entry))


def gain_over(
    scores: NDArray[np.float64], reference: NDArray[np.float64]
) -> tuple[float, float, float]:
    """Mean gain over the budgets, with its standard errors over repeats and over landscapes.

    Args:
        scores: True scores, of shape (repeats, landscapes, budgets).
        reference: Those of another contender; of the longer one, the first repeats count.
    """
    repeats = min(len(scores), len(reference))
    gains = (scores[:repeats] - reference[:repeats]).mean(axis=2)
    over_repeats = gains.mean(axis=1).std(ddof=1) / np.sqrt(repeats)
    over_landscapes = gains.mean(axis=0).std(ddof=1) / np.sqrt(gains.shape[1])
    return float(gains.mean()), float(over_repeats), float(over_landscapes)


def decision(stored: Mapping[str, NDArray[np.float64]]) -> str:
    """Which tuner the rule of `benchmarks/README.md` makes the default, as text."""
    default = default_tuner()
    rows, better = [], []
    for name in stored:
        if name in TUNERS and name != default and min(len(stored[name]), len(stored[default])) > 1:
            gain, *errors = gain_over(stored[name], stored[default])
            rows.append(f"{name}: {gain:+.3f} ± {errors[0]:.3f} ± {errors[1]:.3f}")
            if gain > 2 * max(errors):
                better.append((gain, name))
    verdict = f"{max(better)[1]} becomes the default" if better else f"{default} stays the default"
    return f"gain over {default}: {', '.join(rows)}; {verdict}"


def main() -> None:
    """Measure the contenders that are named, or all, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("contenders", nargs="*", metavar="CONTENDER", help=", ".join(CONTENDERS))
    parser.add_argument("--repeats", type=int, default=200, help="searches on each landscape")
    arguments = parser.parse_args()
    if unknown := set(arguments.contenders) - set(CONTENDERS):
        parser.error(
            f"there is no {', '.join(sorted(unknown))}; there are {', '.join(CONTENDERS)}"
        )
    if arguments.repeats < 2:
        parser.error("a standard error takes --repeats 2 or more")
    RESULTS.parent.mkdir(exist_ok=True)
    tables = usable()
    contenders = arguments.contenders or list(CONTENDERS)
    # Blocks in turn: what is stopped early has about as many repeats of every contender.
    for repeats in range(BLOCK, arguments.repeats, BLOCK):
        for name in (REFERENCE, *contenders):
            measure(name, tables, repeats)
    reference = measure(REFERENCE, tables, arguments.repeats)
    print(f"{'tuner':20} repeats, and for {BUDGETS} runs: true score, better than {REFERENCE}")
    for name in contenders:
        scores = measure(name, tables, arguments.repeats)
        print(line(name, scores, reference), flush=True)
    print(decision(stored_scores()))


if __name__ == "__main__":
    main()
