"""A question that is asked again: the same one, with as many seeds as were ever asked for."""

from dataclasses import replace

from rlexp.app.imported import refuse_imported
from rlexp.errors import RecordError
from rlexp.protocol.experiment import Experiment
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
    return replace(there, seeds=seeds, allotted=_allotted(there, asked, seeds))


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
