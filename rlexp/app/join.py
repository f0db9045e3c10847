"""A question that is asked again: the same one, with as many seeds as were ever asked for."""

from collections.abc import Sequence
from dataclasses import replace

from rlexp.app.reading.imported import refuse_imported
from rlexp.app.reading.older_schema import refuse_older
from rlexp.errors import RecordError
from rlexp.protocol.experiment import Configuration, Experiment
from rlexp.protocol.redefinition import redefinition
from rlexp.protocol.seeds import Phase, SeedPlan, Seeds
from rlexp.store.layout import ExperimentPaths
from rlexp.store.runs import read_experiment


def join(paths: ExperimentPaths, asked: Experiment) -> Experiment:
    """The experiment as it stands, with the seeds that are asked for now.

    Raises:
        RecordError: The name stands for another question; shows what differs.
    """
    if not paths.definition.exists():
        return asked
    there = read_experiment(paths)
    refuse_imported(there, "; choose another name with experiment=…")
    refuse_older(there)
    if there.sweep is not None:
        raise RecordError(
            f"experiment {asked.name} is a sweep: continue it with 'rlexp sweep', "
            "or choose another name with experiment=…",
            code="other_definition",
            key="experiment",
            command=f"rlexp sweep {asked.name}",
        )
    if there.fingerprint != asked.fingerprint:
        differences = "\n".join(f"  {line}" for line in redefinition(there, asked))
        raise RecordError(
            f"experiment {asked.name} exists with another definition; "
            f"choose another name with experiment=…\n{differences}",
            code="other_definition",
            key="experiment",
        )
    seeds = SeedPlan(
        root=there.seeds.root,
        **{p: union(getattr(there.seeds, p), getattr(asked.seeds, p)) for p in Phase},
    )
    configurations = as_built_now(there.configurations, asked.configurations)
    allotted = _allotted(there, asked, seeds)
    return replace(there, configurations=configurations, seeds=seeds, allotted=allotted)


def as_built_now(
    there: Sequence[Configuration], asked: Sequence[Configuration]
) -> tuple[Configuration, ...]:
    """Configurations with the parts as they are asked for: a class may have moved since.

    Args:
        there: What is recorded.
        asked: What a command asks for; the same, by their fingerprints.
    """
    now = {c.fingerprint: c for c in asked}
    return tuple(
        replace(c, agent=n.agent, algorithm=n.algorithm, environment=n.environment)
        for c in there
        for n in (now.get(c.fingerprint, c),)
    )


def _allotted(there: Experiment, asked: Experiment, seeds: SeedPlan) -> dict[str, int]:
    """What stays below the plan: nothing that the command asks for does."""
    wanted, planned = len(asked.seeds.seeds(Phase.TEST)), len(seeds.seeds(Phase.TEST))
    raised = {f: max(count, wanted) for f, count in there.allotted.items()}
    return {f: count for f, count in raised.items() if count < planned}


def union(first: Seeds, second: Seeds) -> Seeds:
    """Seeds of both, counts staying counts."""
    if isinstance(first, int) and isinstance(second, int):
        return max(first, second)
    both = [tuple(range(s)) if isinstance(s, int) else s for s in (first, second)]
    return tuple(dict.fromkeys((*both[0], *both[1])))
