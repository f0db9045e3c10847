"""Options of other tools on the command line, and the words of rlexp that say the same."""

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence

COMMANDS = ("run", "sweep", "config show", "config validate")
"""The commands whose words are overrides of any setting."""
GRID = "several values make a grid without an option: algorithm=ppo,a2c"
STUDY = "a file of words is the first word: rlexp run study.yaml; rlexp init --study writes one"
OPTIONS = "own options lie in conf/ of the present folder: rlexp config list"
SHOWN = "the configuration is shown by: rlexp config show"
OF_HYDRA: Mapping[str, str] = {
    **dict.fromkeys(("--multirun", "-m", "--run", "-r"), GRID),
    **dict.fromkeys(("--cfg", "-c", "--resolve", "--package", "-p", "--info", "-i"), SHOWN),
    **dict.fromkeys(("--config-name", "-cn"), STUDY),
    **dict.fromkeys(("--config-dir", "-cd", "--config-path", "-cp"), OPTIONS),
    "--hydra-help": "the words of rlexp: rlexp run --help",
    "--experimental-rerun": "a run is repeated by: rlexp reproduce EXPERIMENT/RUN",
    "--shell-completion": "completion is installed by: rlexp --install-completion",
    "-sc": "completion is installed by: rlexp --install-completion",
}
"""What to type instead of the options of Hydra."""


def foreign_option_message(
    option: str, path: str, allowed: Collection[str], arguments: Sequence[str]
) -> str | None:
    """What is wrong and what to type; None for an option that no other tool is known to have.

    Args:
        option: The option that the command does not have.
        path: The full name of the command (`rlexp run`).
        allowed: The options that the command has.
        arguments: Everything that was typed behind `rlexp`.
    """
    if path.partition(" ")[2] not in COMMANDS:
        return None
    # Typer reads `-cn` as `-c` and `-n`.
    option = next((a for a in arguments if a in OF_HYDRA and a.startswith(option)), option)
    if option in OF_HYDRA:
        return f"no such option: {option}; {OF_HYDRA[option]}"
    words = list(_translated(arguments[len(path.split()) - 1 :], allowed))
    if None in words:
        return None
    whole = " ".join(word for word in words if word is not None)
    return f"no such option: {option}; settings have no dashes: type {path} {whole}"


def _translated(arguments: Sequence[str], allowed: Collection[str]) -> Iterator[str | None]:
    """The arguments with a word for each unknown option; None where there is no such word."""
    from rlexp.app.commands.setup.configuration import words_of_option
    from rlexp.cli.options import current_workspace

    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        name, sign, value = argument.partition("=")
        if not argument.startswith("--") or name in allowed or not name.strip("-"):
            yield shlex.quote(argument)
            continue
        if not sign:
            is_value = bool(rest) and not rest[0].startswith("-") and "=" not in rest[0]
            value = rest.pop(0) if is_value else "VALUE"
        yield words_of_option(name, value, current_workspace())
