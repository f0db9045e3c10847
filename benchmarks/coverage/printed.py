"""The printed coverage from the results of simulations, and its check on sources kept aside.

`python benchmarks/coverage/printed.py` writes all results to `tests/golden/coverage_pools.json`,
prints the table for `rlexp/stats/coverage.py` (of each cell the worst source that made the table),
and how far the coverage on sources that did not make the table is below it.
"""

import json
from pathlib import Path

RESULTS = Path(__file__).parents[1] / "results"
GOLDEN = Path(__file__).parents[2] / "tests" / "golden" / "coverage_pools.json"
TASKS, RUNS = (1, 3, 5, 8, 26), (3, 4, 5, 10, 20)
METHODS = ("t", "percentile", "basic", "bca")
STATISTICS = {"iqm": "interquartile mean", "mean": "mean"}
Coverage = dict[str, dict[str, dict[str, float]]]


def merged(part: str) -> Coverage:
    """Coverage by source, by tasks × runs, and by statistic and method."""
    sources: Coverage = {}
    for path in sorted(RESULTS.glob(f"coverage_{part}*.json")):
        for name, row in json.loads(path.read_text()).items():
            source, cell = name.rsplit(", ", 1)
            sources.setdefault(source, {})[cell] = {
                f"{statistic} {method}": row[f"{statistic} {method}"]["coverage"]
                for statistic in STATISTICS
                for method in METHODS
            }
    return sources


def worst(sources: Coverage, cell: str, key: str) -> float | None:
    """The least coverage of all sources; None if a source lacks the cell."""
    shares = [cells[cell][key] for cells in sources.values() if cell in cells]
    return min(shares) if len(shares) == len(sources) else None


def main() -> None:
    """Write the golden file, and print the table and the check."""
    parts = {part: merged(part) for part in ("table", "check", "laws")}
    GOLDEN.write_text(json.dumps(parts, indent=1) + "\n")
    for method in METHODS:
        for short, statistic in STATISTICS.items():
            print(f'    ("{method}", "{statistic}"): {{')
            for m in TASKS:
                shares = {
                    n: worst(parts["table"], f"{m} × {n}", f"{short} {method}") for n in RUNS
                }
                row = ", ".join(f"{n}: {s:.3f}" for n, s in shares.items() if s is not None)
                print(f"        {m}: {{{row}}},")
            print("    },")
    for source, cells in parts["check"].items():
        for cell, shares_by_key in cells.items():
            printed = worst(parts["table"], cell, "iqm t")
            if printed is not None:
                excess = 100 * (printed - shares_by_key["iqm t"])
                print(f"{source}, {cell}: printed − actual {excess:.1f}")


if __name__ == "__main__":
    main()
