"""Patterns of paths: what `--path` accepts."""

import re
from dataclasses import dataclass

from rlexp.errors import ConfigError

PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True, slots=True)
class PathPattern:
    """A pattern such as `{label}/seed_{seed}`, laid along neighbouring parts of a path.

    `{label}`, `{task}` and `{seed}` name the run; any other placeholder is a parameter. `*` stands
    for any text within one part.
    """

    text: str
    parts: tuple[re.Pattern[str], ...]

    def match(self, path: str) -> dict[str, str] | None:
        """The values of the placeholders at the last place that fits; None if none fits."""
        parts, count = path.split("/"), len(self.parts)
        for start in range(len(parts) - count, -1, -1):
            pairs = zip(self.parts, parts[start : start + count], strict=True)
            matches = [pattern.fullmatch(part) for pattern, part in pairs]
            values = [match.groupdict() for match in matches if match is not None]
            if len(values) == count:
                return {key: text for groups in values for key, text in groups.items()}
        return None


def parse_path_pattern(text: str) -> PathPattern:
    """Parse a pattern.

    Raises:
        ConfigError: The pattern has no placeholder, repeats one, or two of them touch.
    """
    names = PLACEHOLDER.findall(text)
    rest = PLACEHOLDER.sub("", text)
    example = "write, for example, --path '{label}/seed_{seed}'"
    if not names or "{" in rest or "}" in rest:
        raise ConfigError(f"--path {text!r} has no placeholder, or a single brace: {example}")
    if repeated := [name for name in names if names.count(name) > 1]:
        raise ConfigError(f"--path {text!r} has the placeholder {{{repeated[0]}}} twice")
    if "}{" in text or "}*{" in text:
        raise ConfigError(
            f"--path {text!r} does not say where one placeholder ends and the next one begins: "
            f"put a text between them; {example}"
        )
    parts = text.strip("/").split("/")
    return PathPattern(text, tuple(re.compile(_expression(part)) for part in parts))


def _expression(part: str) -> str:
    pieces = PLACEHOLDER.split(part)
    # Every second piece is a name, because `split` returns the groups between the texts.
    return "".join(
        _group(piece) if at % 2 else re.escape(piece).replace(r"\*", ".*")
        for at, piece in enumerate(pieces)
    )


def _group(name: str) -> str:
    return f"(?P<{name}>{'[0-9]{1,9}' if name == 'seed' else '.+'})"
