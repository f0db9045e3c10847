"""Evidence of made-up ablations: of two changes, along a path, unfinished and minimised."""

from collections.abc import Callable, Mapping, Sequence

from evidence_samples import CARTPOLE, configured, evidence, scored

from rlexp.records.ablation import AblatedChange, Ablation
from rlexp.reports.evidence.ablations import AblationEvidence
from rlexp.reports.evidence.runs import Evidence
from rlexp.stats.sequential.design import Design

WITHOUT_RATE, WITH_RATE = "tuned without learning_rate", "default with learning_rate"
EACH = Ablation(
    kind="each",
    total=("tuned", "default"),
    changes=(
        AblatedChange(
            name="learning_rate",
            old={"algorithm.learning_rate": 3e-4},
            new={"algorithm.learning_rate": 1e-2},
            importance=0.8,
            left_out=("tuned", WITHOUT_RATE),
            added=(WITH_RATE, "default"),
        ),
        AblatedChange(
            name="n_epochs",
            old={"algorithm.n_epochs": 10},
            new={"algorithm.n_epochs": 20},
            importance=0.2,
            left_out=("tuned", WITH_RATE),
            added=(WITHOUT_RATE, "default"),
        ),
    ),
)
PATH = Ablation(
    kind="path",
    total=("tuned", "default"),
    changes=(
        AblatedChange(
            name="learning_rate",
            old={"algorithm.learning_rate": 3e-4},
            new={"algorithm.learning_rate": 1e-2},
            importance=0.8,
            step=(WITH_RATE, "default"),
        ),
        AblatedChange(
            name="n_epochs",
            old={"algorithm.n_epochs": 10},
            new={"algorithm.n_epochs": 20},
            importance=0.2,
            step=("tuned", WITH_RATE),
        ),
    ),
    order="The order was fixed by PED-ANOVA of the tuning trials of quick.",
)
GROUP, INTERIMS = 4, 3
NOISE = (0.0, 7.0, 3.0, 9.0, 5.0, 1.0, 8.0, 4.0, 2.0, 6.0, 0.5, 7.5)
"""The noise of each seed, in units of the score."""
RATE_DID_IT: Mapping[str, float] = {
    "tuned": 450.0,
    "default": 200.0,
    WITHOUT_RATE: 200.0,
    WITH_RATE: 450.0,
}
"""Mean scores where the learning rate did it."""
TOGETHER: Mapping[str, float] = {
    "tuned": 450.0,
    "default": 200.0,
    WITHOUT_RATE: 200.0,
    WITH_RATE: 200.0,
}
"""Mean scores where both changes did it, but only together."""


def ablated(
    means: Mapping[str, float] = RATE_DID_IT,
    ablation: Ablation = EACH,
    *,
    seeds: int = GROUP * INTERIMS,
    minimised: bool = False,
    noise: Sequence[float] = NOISE,
) -> Evidence:
    """The evidence of an ablation; each label has the noise in an order of its own."""
    labels = list(dict.fromkeys(label for pair in ablation.contrasts for label in pair))
    members = [
        member
        for place, label in enumerate(labels)
        for member in scored(
            configured(label),
            [means[label] + noise[(5 * place + seed) % len(noise)] for seed in range(seeds)],
        )
    ]
    of = AblationEvidence(
        experiment="sample",
        ablation=ablation,
        design=Design(group=GROUP, interims=INTERIMS, pairs=ablation.contrasts, repetitions=2000),
        anchors={CARTPOLE: (0.0, -1.0)} if minimised else {},
    )
    return evidence(members, ablations=(of,))


ABLATIONS: Mapping[str, Callable[[], Evidence]] = {
    "ablated": ablated,
    "ablated_together": lambda: ablated(TOGETHER),
    "ablated_path": lambda: ablated(ablation=PATH),
    "ablated_unfinished": lambda: ablated(seeds=GROUP),
    "ablated_without_looks": lambda: ablated(seeds=1),
}
"""Samples by name."""
