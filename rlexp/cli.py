"""The command line: parses words, calls a use case, exits. A command is a few lines."""

import errno
import sys
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rlexp.app.study import Study
    from rlexp.console import Console

UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM}
"""Error numbers that a user can act on without reading a traceback."""

Words = Annotated[
    list[str] | None,
    typer.Argument(help="Configuration in Hydra's grammar: algorithm=ppo budget.steps=20000"),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it; without, only say what would be done.")]
Allow = Annotated[
    list[str] | None,
    typer.Option("--allow-import", help="A package whose classes and environments may be used."),
]
Run = Annotated[str, typer.Argument(help="EXPERIMENT/RUN, or an unambiguous part of a run's name")]
Target = Annotated[str, typer.Argument(help="An experiment or a run")]

app = typer.Typer(
    name="rlexp",
    help="Reinforcement-learning experiments you can trust.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)
config = typer.Typer(help="Show, list and validate configurations.", no_args_is_help=True)
app.add_typer(config, name="config")


def _here(allow: list[str] | None = None) -> "Study":
    from rlexp.app.study import Study

    return Study.here(tuple(allow or ()))


def _console(*, as_json: bool = False, quiet: bool = False) -> "Console":
    from rlexp.console import Console

    return Console(as_json=as_json, quiet=quiet)


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"rlexp {installed('rlexp')}")
        raise typer.Exit


@app.command()
def run(
    words: Words = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan only.")] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Try final failures again.")] = False,
    allow_import: Allow = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Train configurations on seeds, and show their scores."""
    from rlexp.app.run import Options
    from rlexp.app.run import run as use_case

    console = _console(as_json=as_json, quiet=quiet)
    options = Options(dry_run=dry_run, retry=retry)
    raise typer.Exit(use_case(words or [], options, _here(allow_import), console))


@app.command("ls")
def list_runs(
    experiment: Annotated[str | None, typer.Argument(help="Show its runs")] = None,
    where: Annotated[
        list[str] | None,
        typer.Option("--where", help="state=failed, task~cartpole, score>400, label=ppo …"),
    ] = None,
    sort: Annotated[str | None, typer.Option("--sort", help="A column; -column reverses")] = None,
    group: Annotated[bool, typer.Option("--group", help="One row a configuration")] = False,
    as_json: Json = False,
) -> None:
    """List experiments, or the runs of one."""
    from rlexp.app.ls import Selection, list_all

    selection = Selection(experiment, tuple(where or ()), sort, group)
    raise typer.Exit(list_all(selection, _here(), _console(as_json=as_json)))


@app.command()
def show(
    target: Target,
    show_config: Annotated[bool, typer.Option("--config", help="Its configuration")] = False,
    provenance: Annotated[bool, typer.Option("--provenance", help="Where it comes from")] = False,
    as_json: Json = False,
) -> None:
    """Show an experiment or a run: scores, states, evaluations."""
    from rlexp.app.show import Part
    from rlexp.app.show import show as use_case

    part = Part.CONFIG if show_config else Part.PROVENANCE if provenance else Part.RESULT
    raise typer.Exit(use_case(target, part, _here(), _console(as_json=as_json)))


@app.command()
def logs(
    run_name: Run,
    attempt: Annotated[int | None, typer.Option("--attempt", help="Default: the last")] = None,
    lines: Annotated[int | None, typer.Option("--lines", "-n", help="Only the last N")] = None,
) -> None:
    """Print what a run wrote to its output."""
    from rlexp.app.logs import logs as use_case

    raise typer.Exit(use_case(run_name, attempt, lines, _here(), _console()))


@app.command()
def diff(first: Run, second: Run, as_json: Json = False) -> None:
    """Show in what two runs differ: configuration, code, packages, machine."""
    from rlexp.app.diff import diff as use_case

    raise typer.Exit(use_case(first, second, _here(), _console(as_json=as_json)))


@app.command()
def cancel(target: Target) -> None:
    """End the command that drives an experiment, or one run of it, gracefully."""
    from rlexp.app.cancel import cancel as use_case

    raise typer.Exit(use_case(target, _here(), _console()))


@app.command("rm")
def remove(target: Target, yes: Yes = False) -> None:
    """Remove an experiment or a run; without --yes, say what that would remove."""
    from rlexp.app.remove import remove as use_case

    raise typer.Exit(use_case(target, _here(), _console(), yes=yes))


@app.command()
def evaluate(
    run_name: Run,
    episodes: Annotated[int, typer.Option("--episodes", min=1, help="Fresh episodes")] = 100,
    draw: Annotated[int, typer.Option("--draw", min=0, help="Another set of fresh seeds")] = 0,
    stochastic: Annotated[bool, typer.Option("--stochastic", help="Sample actions")] = False,
    checkpoint: Annotated[int | None, typer.Option("--checkpoint", help="At this step")] = None,
    video: Annotated[int, typer.Option("--video", min=0, help="Film N episodes")] = 0,
    output: Annotated[str | None, typer.Option("--output", help="Folder for videos")] = None,
    allow_import: Allow = None,
    as_json: Json = False,
) -> None:
    """Play fresh episodes with a run's final policy, on seeds that no training saw."""
    from rlexp.app.evaluate import Evaluation
    from rlexp.app.evaluate import evaluate as use_case

    wanted = Evaluation(
        episodes=episodes,
        draw=draw,
        deterministic=None if not stochastic else False,
        checkpoint=checkpoint,
        video=video,
        output=output,
    )
    raise typer.Exit(use_case(run_name, wanted, _here(allow_import), _console(as_json=as_json)))


@app.command()
def doctor(
    environment: Annotated[
        str | None,
        typer.Option("--environment", help="Check one environment in a process of its own"),
    ] = None,
    allow_import: Allow = None,
    as_json: Json = False,
) -> None:
    """Check versions, threads and disk; or one environment."""
    from rlexp.app.doctor import doctor as use_case

    raise typer.Exit(use_case(environment, _here(allow_import), _console(as_json=as_json)))


@app.command()
def init(
    folder: Annotated[str, typer.Argument(help="The new study's folder")] = ".",
) -> None:
    """Write the scaffold of a new study."""
    from rlexp.app.init import init as use_case

    raise typer.Exit(use_case(folder, _console()))


@config.command("show")
def config_show(words: Words = None, allow_import: Allow = None, as_json: Json = False) -> None:
    """Show the resolved configuration that words lead to."""
    from rlexp.app.configuration import show_configuration

    console = _console(as_json=as_json)
    raise typer.Exit(show_configuration(words or [], _here(allow_import), console))


@config.command("list")
def config_list(
    group: Annotated[str | None, typer.Argument(help="algorithm, environment, agent …")] = None,
    as_json: Json = False,
) -> None:
    """List the groups, or the options of one."""
    from rlexp.app.configuration import list_options

    raise typer.Exit(list_options(group, _here(), _console(as_json=as_json)))


@config.command("validate")
def config_validate(words: Words = None, allow_import: Allow = None) -> None:
    """Check that words lead to a valid configuration whose parts fit; start nothing."""
    from rlexp.app.configuration import validate_configuration

    raise typer.Exit(validate_configuration(words or [], _here(allow_import), _console()))


def main() -> None:
    """Run the command line; a user's mistake is one line, never a traceback."""
    from rlexp.errors import RlexpError

    try:
        app()
    except RlexpError as error:
        _console().error(str(error))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        _console().error(f"{error}; free space or choose another folder with RLEXP_RUNS")
        sys.exit(2)


if __name__ == "__main__":
    main()
