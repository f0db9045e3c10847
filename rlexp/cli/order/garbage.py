"""`rlexp gc`: tells what finished runs keep on disk to be extended, and removes it."""

from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.completion import complete_experiment
from rlexp.cli.options import Json, Yes, console_for, current_workspace, show_result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlexp.app.commands.order.garbage import GarbageCollection, KeptState


def collect(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            autocompletion=complete_experiment, help="Experiments; default: all of them."
        ),
    ] = None,
    states: Annotated[
        bool,
        typer.Option("--states", help="Also remove all other state but the policies."),
    ] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Remove replay buffers that finished runs keep (needs --yes).

    Without --yes, only show their sizes.
    """
    from rlexp.app.commands.order.garbage import collect_garbage

    result = collect_garbage(targets or [], current_workspace(), states=states, yes=yes)
    show_result(result, console_for(as_json=as_json), garbage_lines)


def garbage_lines(result: "GarbageCollection") -> "Iterator[str]":
    """What each experiment keeps, what was or would be removed, and the command that does it."""
    from rlexp.cli.summaries import next_lines
    from rlexp.text import format_bytes

    for kept in result.experiments:
        yield _kept_line(kept)
        for name in kept.awaited_by:
            if name == kept.experiment:
                yield (
                    f"  longer runs of {name} may continue some of its runs, so that their states "
                    f"stay until it has chosen its winner: finish it with 'rlexp resume {name}'"
                )
                continue
            yield (
                f"  {name} extends runs of {kept.experiment} and has not taken over their states yet, "
                f"so that these stay: finish it with 'rlexp resume {name}', or remove it with "
                f"'rlexp rm {name}'"
            )
    if result.bytes:
        yield f"{'removed' if result.removed else 'would remove'} {format_bytes(result.bytes)}"
    elif result.experiments:
        yield "nothing to remove"
    else:
        yield "nothing to remove: no finished run keeps more than its policy"
    yield from next_lines(result.next)


def _kept_line(kept: "KeptState") -> str:
    from rlexp.text import format_bytes, format_count

    used = f"; left as it is, because it is in use by {kept.holder}" if kept.holder else ""
    return (
        f"{kept.experiment}: {format_count(kept.runs, 'run')}, replay buffers "
        f"{format_bytes(kept.replay_bytes)}, other state {format_bytes(kept.state_bytes)}{used}"
    )
