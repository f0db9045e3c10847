"""What the repetition of an extended run begins with: the state of its parent, or the parent again."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rlexp.app.reproduction.original import Original, read_original
from rlexp.errors import RecordError
from rlexp.protocol.spec import Parent
from rlexp.records.run import State
from rlexp.store.checkpoints.inheritance import FIRST, find_copy, find_run, inherit, verify_copy
from rlexp.store.former_names import find_renamed
from rlexp.store.layout import ExperimentPaths, Layout
from rlexp.store.ledger_writer import LedgerWriter
from rlexp.store.runs import read_run


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """Runs of one experiment that are repeated together.

    Attributes:
        name: The name of the experiment in which they are repeated.
        originals: The runs.
        parents: The experiment whose runs they continue; None if they begin at step 0.
        repeated: The experiments in which parents are repeated before, because their states are gone,
            by the names of the runs that continue them.
        handed_on: Whether other runs continue these, so that their states are needed.
    """

    name: str
    originals: tuple[Original, ...]
    parents: ExperimentPaths | None
    repeated: Mapping[str, str]
    handed_on: bool


GenerationKey = tuple[str, bool, int]
"""The experiment of runs, whether they continue others, and how many ancestors in the same
experiment are repeated before them."""


@dataclass(slots=True)
class _Ancestry:
    """Runs that are repeated, with the repeated parents of those whose parents lost their state.

    Attributes:
        depths: The number of repeated ancestors, by the name of a run.
        keys: The generation of each run, by its name.
        groups: The runs of each generation.
        parents: The name of the repeated parent, by the name of the run that continues it.
    """

    depths: dict[str, int] = field(default_factory=dict)
    keys: dict[str, GenerationKey] = field(default_factory=dict)
    groups: dict[GenerationKey, list[Original]] = field(default_factory=dict)
    parents: dict[str, str] = field(default_factory=dict)

    def add(self, original: Original) -> None:
        """Add a run, and the ancestors that have to be repeated before it.

        Raises:
            RecordError: The state of a parent is gone, and the parent too, or it is not completed.
        """
        name, experiment = original.name, original.paths.folder.parent.name
        if name in self.keys:
            return
        parents, depth, ancestors = _experiment_of_parents(original), 0, 0
        if parents is not None and not _holds_state(original, parents):
            parent = _needed_parent(original, parents)
            self.add(parent)
            self.parents[name] = parent.name
            depth = self.depths[parent.name] + 1
            # Trials of a sweep continue runs of the same sweep.
            is_of_the_same = parent.paths.folder.parent.name == experiment
            ancestors = self.keys[parent.name][2] + 1 if is_of_the_same else 0
        self.depths[name] = depth
        self.keys[name] = (experiment, parents is not None, ancestors)
        self.groups.setdefault(self.keys[name], []).append(original)

    def ordered(self) -> list[GenerationKey]:
        """The generations, ancestors first."""
        return sorted(
            self.groups, key=lambda key: max(self.depths[o.name] for o in self.groups[key])
        )


def generations(originals: Sequence[Original]) -> tuple[Generation, ...]:
    """The runs that are repeated, ancestors first.

    A parent is repeated only where it does not hold the state any more from which its extension
    continued.

    Args:
        originals: The requested runs, all of one experiment.

    Raises:
        RecordError: The state of a parent is gone, and the parent too, or it is not completed.
    """
    ancestry = _Ancestry()
    for original in originals:
        ancestry.add(original)
    keys = ancestry.ordered()
    names = dict(zip(keys, _different(key[0] for key in keys), strict=True))
    needed = {*ancestry.parents.values()}
    return tuple(
        Generation(
            name=names[key],
            originals=tuple(members),
            parents=_experiment_of_parents(members[0]),
            repeated={
                o.name: names[ancestry.keys[ancestry.parents[o.name]]]
                for o in members
                if o.name in ancestry.parents
            },
            handed_on=any(o.name in needed for o in members),
        )
        for key, members in ((key, ancestry.groups[key]) for key in keys)
    )


def _different(names: Iterable[str]) -> Iterator[str]:
    """The names, numbered where one appears again: an experiment has one definition."""
    counts: Counter[str] = Counter()
    for name in names:
        counts[name] += 1
        yield name if counts[name] == 1 else f"{name}-{counts[name]}"


def _experiment_of_parents(original: Original) -> ExperimentPaths | None:
    """The experiment whose run is continued; None if the run begins at step 0."""
    inherited = original.record.inherited
    if inherited is None:
        return None
    layout = Layout(original.paths.folder.parent.parent)
    return find_renamed(layout, inherited.experiment)


def _parent(original: Original) -> Parent:
    """The run, step and state that an extended run continues."""
    parent = original.record.spec.parent
    assert parent is not None
    return parent


def _holds_state(original: Original, parents: ExperimentPaths) -> bool:
    """Whether the parent of a run still holds the state from which the run continued."""
    parent = _parent(original)
    try:
        copy = find_copy(find_run(parents, parent.run), parent.run)
        if copy is None or copy.parent != parent:
            return False
        verify_copy(copy)
    except RecordError:
        return False
    return True


def _needed_parent(original: Original, parents: ExperimentPaths) -> Original:
    """The parent of a run, which has to be repeated.

    Raises:
        RecordError: The parent is gone, or it is not completed.
    """
    record = original.record
    assert record.inherited is not None
    name = f"{parents.name}/{record.inherited.run}"
    start = f"run {original.name} continues run {name} from step {_parent(original).step:,}, whose"
    end = "put its folder back, or start a fresh run of that length and reproduce that"
    try:
        run = find_run(parents, _parent(original).run)
    except RecordError as error:
        raise RecordError(f"{start} records are gone: {end}") from error
    if (state := read_run(run).record.state) is not State.COMPLETED:
        raise RecordError(
            f"{start} state is gone, and which is {state}, so that it cannot be repeated: {end}"
        )
    return read_original(run)


def hand_over(generation: Generation, paths: ExperimentPaths) -> dict[str, str]:
    """Give the runs of a generation the states of their parents.

    Args:
        generation: The runs.
        paths: The experiment in which they are repeated, beside that of their repeated parents.

    Returns:
        The reasons why runs cannot begin, by the names of the runs.

    Raises:
        OSError: The disk is full or fails.
    """
    reasons: dict[str, str] = {}
    if generation.parents is None:
        return reasons
    layout = Layout(paths.folder.parent)
    ledger = LedgerWriter(paths)
    for original in generation.originals:
        spec, again = original.record.spec, generation.repeated.get(original.name)
        run = paths.run(spec.name)
        try:
            inherit(run, spec, generation.parents if again is None else layout.experiment(again))
        except RecordError as error:
            reasons[original.name] = str(error) if again is None else _not_reached(original)
        else:
            ledger.enter(run, FIRST)
    return reasons


def _not_reached(original: Original) -> str:
    return (
        f"the repetition of its parent did not reach the state of step {_parent(original).step:,} "
        "from which the run continued"
    )
