"""Prints the lowest version that pyproject.toml allows of every dependency, as pip's constraints.

`make test-lowest` installs them.
"""

import tomllib
from pathlib import Path

from packaging.requirements import Requirement

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]

for requirement in map(Requirement, PROJECT["dependencies"]):
    (version,) = (part.version for part in requirement.specifier if part.operator == ">=")
    print(f"{requirement.name}=={version}")
