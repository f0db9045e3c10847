"""The commands by which a stream goes on: one place for every command that prints them."""

import shlex
from collections.abc import Iterator, Sequence

from rlexp.app.results import NextCommand
from rlexp.app.streams.judging import design_of
from rlexp.protocol.seeds import Phase
from rlexp.records.stream import StreamRegister
from rlexp.stats.sequential.candidates import fewest_seeds
from rlexp.store.layout import ExperimentPaths
from rlexp.store.runs import read_experiment
from rlexp.store.sweeps import read_selection

EXAMPLES = tuple(f"algorithm.gamma={gamma}" for gamma in (0.98, 0.97, 0.995, 0.95, 0.9))
"""Candidates that are suggested, each until it has been proposed."""
FINISH = "finish the open candidate"
TEST = "test the champion"


def missing_tests(paths: ExperimentPaths, register: StreamRegister) -> int:
    """Number of test runs without a score of the trusted code."""
    experiment, selection = read_experiment(paths), read_selection(paths)
    if selection is None:
        return len(experiment.seeds.seeds(Phase.TEST)) * (2 if register.kept else 1)
    specs = [spec for _, spec in experiment.specs(Phase.TEST)]
    scored = (register.scored.get(spec.id) for spec in specs)
    return sum(each is None or each.score is None for each in scored)


def is_full(register: StreamRegister) -> bool:
    """Whether the stream has all the candidates that it was begun for."""
    if register.beginning is None:
        return False
    horizon = design_of(register.beginning).horizon
    return horizon is not None and len(register.candidates) >= horizon


def needed_seeds(register: StreamRegister) -> int | None:
    """The fewest tuning seeds on which the next candidate can be kept; None where none can be kept."""
    if register.beginning is None or is_full(register):
        return None
    design = design_of(register.beginning)
    return fewest_seeds(design, len(register.candidates) + 1, len(register.kept))


def stream_commands(
    paths: ExperimentPaths, register: StreamRegister, permission: Sequence[str]
) -> Iterator[NextCommand]:
    """The commands of `rlexp propose` that are accepted in the present state of a stream.

    Args:
        paths: The stream.
        register: Its register.
        permission: The options that allow the code that its configurations name.
    """

    def command(why: str, word: str) -> NextCommand:
        words = ["rlexp", "propose", paths.name, word, *permission]
        return NextCommand(why=why, command=shlex.join(words))

    if register.closed is not None:
        if missing_tests(paths, register):
            yield command(TEST, "--final")
        return
    if register.open is not None:
        yield command(FINISH, "--continue")
        return
    proposed = {word for each in register.candidates for word in each.words}
    proposed.update(() if register.beginning is None else register.beginning.words)
    example = next((word for word in EXAMPLES if word not in proposed), None)
    if example is not None and needed_seeds(register) is not None:
        yield command("propose a candidate", example)
    if register.candidates:
        yield command("close the stream and test its champion", "--final")
