"""Says before training where the planned seeds cannot give a verdict."""

from collections import Counter
from collections.abc import Iterable

from rlexp.protocol.identity import canonical
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.stats.pairs.reach import (
    correction_of,
    seeds_to_decide,
    smallest_adjusted_p,
    smallest_p_of_seeds,
)
from rlexp.text import format_count

ALPHA = 0.05
"""The usual level of verdicts; that of `conf/report.yaml` is read when labels are compared."""


def missing_reach(specs: Iterable[RunSpec], alpha: float | None = None) -> str | None:
    """Why no verdict is possible with the planned seeds.

    Args:
        specs: The runs of one phase, missing and done.
        alpha: The level of the verdicts; None is the usual one.

    Returns:
        None if a verdict is possible, for a single label, and for other phases than the test.
    """
    alpha = ALPHA if alpha is None else alpha
    runs, labels_by_task = Counter[str](), dict[str, set[str]]()
    for spec in specs:
        if spec.phase is not Phase.TEST:
            return None
        if spec.fingerprint not in runs:
            labels_by_task.setdefault(canonical(spec.environment), set()).add(spec.fingerprint)
        runs[spec.fingerprint] += 1
    labels = max(map(len, labels_by_task.values()), default=0)
    if labels < 2:
        return None
    seeds, tasks, pairs = min(runs.values()), len(labels_by_task), labels * (labels - 1) // 2
    correction = correction_of(labels)
    p = smallest_adjusted_p(smallest_p_of_seeds(seeds, tasks), correction, pairs, labels)
    if p <= alpha:
        return None
    needed = seeds_to_decide(tasks, pairs, alpha, correction, labels)
    return (
        f"{format_count(seeds, 'seed')} per label cannot decide between {labels} labels: the "
        f"smallest possible p-value is {p:.3g}, above {alpha:g}; {needed} seeds or more can"
    )
