"""Prints the lowest version that pyproject.toml allows of every requirement, as pip's constraints.

`make test-lowest` installs them. Requirements of the extras that are named as arguments are among
them; an extra that only names other extras stands for those.
"""

import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

from packaging.requirements import Requirement

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]


def requirements(texts: Sequence[str]) -> Iterator[Requirement]:
    """Every requirement of a list, those of our extras in it included."""
    for requirement in map(Requirement, texts):
        if requirement.name == PROJECT["name"]:
            for extra in sorted(requirement.extras):
                yield from requirements(PROJECT["optional-dependencies"][extra])
        else:
            yield requirement


def lowest(requirement: Requirement) -> str:
    """The lowest version that a requirement allows, as a constraint."""
    (version,) = (part.version for part in requirement.specifier if part.operator == ">=")
    return f"{requirement.name}=={version}"


extras = [f"{PROJECT['name']}[{','.join(sys.argv[1:])}]"] if sys.argv[1:] else []
for line in sorted({lowest(one) for one in requirements([*PROJECT["dependencies"], *extras])}):
    print(line)
