"""Answers of the command line to a shell that completes a word (`rlexp --install-completion`).

Typer calls a callback for the argument or option that the incomplete word belongs to. A callback
prints nothing and raises nothing. Where something is wrong, it has no answer, and the shell
completes names of files.
"""

import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import redirect_stdout, suppress
from pathlib import Path

import typer

Answer = list[tuple[str, str]]
"""Words with their meanings, which zsh and fish show."""
Callback = Callable[[typer.Context, str], Answer]
VARIABLE = "_RLEXP_COMPLETE"
"""The environment variable by which a shell asks for a completion."""
BASH = "complete_bash"
"""Its value in bash."""
BREAKS = re.compile(r"[=:]+")
"""Characters at which bash divides words, by its variable `COMP_WORDBREAKS`."""
CALL_IN_ZSH = """
if [[ $funcstack[1] == _%(prog_name)s ]]; then
  %(complete_func)s "$@"
fi
"""
"""The last lines of the script for zsh.

At the first Tab, zsh loads the script's file and executes it as the function `_rlexp`. The script of
Typer only defines and registers the function that completes. Where a user evaluates the script
instead, no function is at work, and nothing is called.
"""
OF_RESUMED_RUNS = ("executor", "tracker")
"""Groups of words that may be given to runs that are defined already."""


def asks_for_script(arguments: Sequence[str]) -> bool:
    """Whether the arguments ask for the script that makes a shell complete."""
    return any(
        word.startswith(("--install-completion", "--show-completion")) for word in arguments
    )


def complete_at_first_tab_in_zsh() -> None:
    """Let the script for zsh complete when it is loaded, and not only afterwards."""
    from typer import _completion_shared

    # Typer has no public way to change its scripts.
    scripts: dict[str, str] = getattr(_completion_shared, "_completion_scripts", {})
    if "zsh" in scripts and not scripts["zsh"].endswith(CALL_IN_ZSH):
        scripts["zsh"] += CALL_IN_ZSH


def _safely(find: Callable[[], Iterable[tuple[str, str]]]) -> Answer:
    """What a search finds; nothing where it fails, because a shell shows no error."""
    with suppress(Exception):
        return list(find())
    return []


def complete_words(context: typer.Context, incomplete: str) -> Answer:
    """Words of a configuration: groups, their options, dotted keys and values."""
    return _safely(lambda: _words(context, incomplete))


def complete_sweep(context: typer.Context, incomplete: str) -> Answer:
    """The name of a sweep definition, then words of a configuration."""

    def find() -> Iterator[tuple[str, str]]:
        from rlexp.config.word_completion import complete_definition

        if not _typed(context):
            yield from ((c.word, c.meaning) for c in complete_definition(Path.cwd()))
        yield from _words(context, incomplete, sweeping=True)

    return _safely(find)


def complete_operational(context: typer.Context, incomplete: str) -> Answer:
    """Words that change no number: of executors, trackers and checkpoints."""

    def find() -> Iterator[tuple[str, str]]:
        from rlexp.config.overrides import ATTEMPT_KEYS

        for word, meaning in _words(context, incomplete):
            key = word.partition("=")[0]
            if key in ATTEMPT_KEYS or key.partition(".")[0] in OF_RESUMED_RUNS:
                yield word, meaning

    return _safely(find)


def complete_resumed(context: typer.Context, incomplete: str) -> Answer:
    """An experiment or a run, then words that change no number."""
    first = [] if _typed(context) else complete_target(context, incomplete)
    return [*first, *complete_operational(context, incomplete)]


def complete_experiment(context: typer.Context, incomplete: str) -> Answer:
    """An experiment."""
    del context, incomplete
    return _safely(_experiments)


def complete_target(context: typer.Context, incomplete: str) -> Answer:
    """An experiment, or a run as `EXPERIMENT/RUN`."""
    del context
    return _safely(lambda: _targets(incomplete, runs=True))


def complete_label(context: typer.Context, incomplete: str) -> Answer:
    """An experiment, or a label of it as `EXPERIMENT/LABEL`."""
    del context
    return _safely(lambda: _targets(incomplete, labels=True))


def complete_label_or_run(context: typer.Context, incomplete: str) -> Answer:
    """An experiment, or a label or a run of it."""
    del context
    return _safely(lambda: _targets(incomplete, labels=True, runs=True))


def complete_run(context: typer.Context, incomplete: str) -> Answer:
    """A run as `EXPERIMENT/RUN`."""
    del context

    def find() -> Iterable[tuple[str, str]]:
        if "/" in incomplete:
            return _targets(incomplete, runs=True)
        matching = [name for name, _ in _experiments() if name.startswith(incomplete)]
        # A shell would add a space after a single experiment, so its runs are the answer.
        if len(matching) == 1:
            return _targets(f"{matching[0]}/", runs=True)
        return [(f"{name}/", "") for name in matching]

    return _safely(find)


def complete_group(context: typer.Context, incomplete: str) -> Answer:
    """A group of the configuration."""
    del context, incomplete

    def find() -> Iterable[tuple[str, str]]:
        from rlexp.config.config_files import listed_groups

        return [(name, "") for name in listed_groups(Path.cwd())]

    return _safely(find)


def one_of(*choices: str) -> Callback:
    """The callback of an argument or option that takes one of a few words."""

    def complete(context: typer.Context, incomplete: str) -> Answer:
        del context, incomplete
        return [(choice, "") for choice in choices]

    return complete


complete_phase = one_of("test", "selection", "tuning")
"""Completes a phase."""


def _typed(context: typer.Context) -> list[str]:
    """The complete words of all arguments that take several."""
    lists = [value for value in context.params.values() if isinstance(value, list | tuple)]
    return [word for values in lists for word in values if isinstance(word, str)]


def _words(
    context: typer.Context, incomplete: str, *, sweeping: bool = False
) -> Iterator[tuple[str, str]]:
    from rlexp.config.word_completion import WordCompleter

    key, sign, _ = incomplete.partition("=")
    if sign and key == "experiment":
        yield from ((f"experiment={name}", meaning) for name, meaning in _experiments())
    completer = WordCompleter(Path.cwd(), _typed(context), sweeping=sweeping)
    yield from ((c.word, c.meaning) for c in completer.complete(incomplete))


def _experiments() -> Answer:
    from rlexp.app.reading.target_names import experiment_names
    from rlexp.app.workspace import Workspace

    return [(name, "") for name in experiment_names(Workspace.here())]


def _targets(incomplete: str, *, runs: bool = False, labels: bool = False) -> Answer:
    """Experiments, or what is inside the experiment before the slash."""
    from rlexp.app.reading.target_names import names_inside
    from rlexp.app.workspace import Workspace

    experiment, slash, _ = incomplete.partition("/")
    if not slash:
        return _experiments()
    inside = names_inside(experiment, Workspace.here(), runs=runs, labels=labels)
    return [(name, "") for name in inside]


def asks_for_bash() -> bool:
    """Whether bash asks for a completion."""
    return os.environ.get(VARIABLE) == BASH


def complete_in_bash(command: Callable[[], object]) -> None:
    """Answer bash, which divides `algorithm=ppo` into three words and replaces only the last one.

    Args:
        command: The command line, which prints the answers for undivided words.
    """
    divided = os.environ["COMP_WORDS"].split("\n")
    joined, current = join_words(divided, int(os.environ["COMP_CWORD"]))
    os.environ["COMP_WORDS"], os.environ["COMP_CWORD"] = "\n".join(joined), str(current)
    answers = io.StringIO()
    with redirect_stdout(answers), suppress(SystemExit):
        command()
    incomplete = joined[current] if current < len(joined) else ""
    ends = [match.end() for match in BREAKS.finditer(incomplete)]
    kept = ends[-1] if ends else 0
    for line in answers.getvalue().splitlines():
        typer.echo(line[kept:])


def join_words(divided: Sequence[str], current: int) -> tuple[list[str], int]:
    """The words that bash divided at `=` and `:`, and the position of the current one.

    Args:
        divided: The words of bash, the current one included.
        current: The position of the current word among them.
    """
    joined: list[str] = []
    position, open_word = 0, False
    for number, word in enumerate(divided[: current + 1]):
        is_break = BREAKS.fullmatch(word) is not None
        # A break belongs to the word before it, and the word after a break to the break. An empty
        # word after a break is a new word: a space was typed before it.
        if joined and number > 1 and (is_break or (open_word and word)):
            joined[-1] += word
        else:
            joined.append(word)
        open_word = is_break
        position = len(joined) - 1
    return joined, position
