"""What the repetition of an extended run begins with: the state of its parent, or the parent again."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rlexp.app.reproduction.original import Original, read_original
from rlexp.errors import RecordError
from rlexp.protocol.spec import Parent
from rlexp.records.run import State
from rlexp.store.former_names import find_renamed
from rlexp.store.inheritance import FIRST, find_copy, find_run, inherit, verify_copy
from rlexp.store.layout import ExperimentPaths, Layout
from rlexp.store.ledger_writer import LedgerWriter
from rlexp.store.runs import read_run


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """Runs of one experiment that are repeated together.

    Attributes:
        originals: The runs.
        parents: The experiment whose runs they continue; None if they begin at step 0.
        repeated: Names of the runs whose parents are repeated first, because the state of these
            parents is gone.
        handed_on: Whether other runs continue these, so that their states are needed.
    """

    originals: tuple[Original, ...]
    parents: ExperimentPaths | None
    repeated: frozenset[str]
    handed_on: bool


def generations(originals: Sequence[Original]) -> tuple[Generation, ...]:
    """The runs that are repeated, ancestors first; the last generation is the requested runs.

    A parent is repeated only where it does not hold the state any more from which its extension
    continued.

    Args:
        originals: The requested runs, all of one experiment.

    Raises:
        RecordError: The state of a parent is gone, and the parent too, or it is not completed.
    """
    parents = _experiment_of_parents(originals)
    needed = {
        o.name: _needed_parent(o, parents)
        for o in originals
        if parents is not None and not _holds_state(o, parents)
    }
    last = Generation(
        originals=tuple(originals),
        parents=parents,
        repeated=frozenset(needed),
        handed_on=False,
    )
    if not needed:
        return (last,)
    *earlier, youngest = generations([*needed.values()])
    return (*earlier, replace(youngest, handed_on=True), last)


def _experiment_of_parents(originals: Sequence[Original]) -> ExperimentPaths | None:
    """The experiment whose runs are continued; None if the runs begin at step 0."""
    inherited = originals[0].record.inherited
    if inherited is None:
        return None
    layout = Layout(originals[0].paths.folder.parent.parent)
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
    again = Layout(paths.folder.parent).experiment(generation.parents.name)
    ledger = LedgerWriter(paths)
    for original in generation.originals:
        spec, is_repeated = original.record.spec, original.name in generation.repeated
        run = paths.run(spec.name)
        try:
            inherit(run, spec, again if is_repeated else generation.parents)
        except RecordError as error:
            reasons[original.name] = _not_reached(original) if is_repeated else str(error)
        else:
            ledger.enter(run, FIRST)
    return reasons


def _not_reached(original: Original) -> str:
    return (
        f"the repetition of its parent did not reach the state of step {_parent(original).step:,} "
        "from which the run continued"
    )
