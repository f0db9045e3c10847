"""Checks that a version can be released, and tries the built wheel as a user would.

`make release` calls it twice: `release.py check` before anything is built, and `release.py try RLEXP`
with the command of an environment that holds nothing but the wheel and its dependencies.
"""

import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
HEADING = re.compile(r"^## \[(?P<version>[^\]]+)\] - (?P<date>.+)$", re.MULTILINE)
CITED = re.compile(r"^(?P<key>version|date-released): *['\"]?(?P<value>[^'\"\s]+)", re.MULTILINE)
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
COMMANDS = (
    ("--version",),
    ("doctor",),
    (
        *("run", "algorithm=ppo,a2c", "environment=cartpole", "experiment=first", "seeds.test=3"),
        *("algorithm.n_steps=64", "budget.steps=256", "budget.final_episodes=5"),
    ),
    ("compare", "first"),
    ("report", "first"),
    ("verify", "first"),
)
"""The first commands of a new user, which take a minute."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """The statements of a checkout about its version.

    Attributes:
        version: The version in pyproject.toml.
        changelog: The version and the date of the newest heading in CHANGELOG.md.
        citation: The version and the date in CITATION.cff; the date may be missing.
        changed: The changed and untracked files, as `git status` names them.
        tagged: Whether there is a tag of the version.
        tagged_here: Whether this tag is on the commit of the checkout.
    """

    version: str
    changelog: tuple[str, str]
    citation: tuple[str, str | None]
    changed: tuple[str, ...]
    tagged: bool
    tagged_here: bool

    @classmethod
    def read(cls, folder: Path) -> "Checkout":
        """Read the files of a checkout and ask git.

        Raises:
            FileNotFoundError: A file or git is missing.
            subprocess.CalledProcessError: The folder is no checkout.
        """
        project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
        tag = f"v{project['version']}"
        heading = HEADING.search((folder / "CHANGELOG.md").read_text())
        cited = dict(CITED.findall((folder / "CITATION.cff").read_text()))
        return cls(
            version=project["version"],
            changelog=(heading["version"], heading["date"]) if heading else ("", ""),
            citation=(cited.get("version", ""), cited.get("date-released")),
            changed=tuple(_git(folder, "status", "--porcelain")),
            tagged=bool(_git(folder, "tag", "--list", tag)),
            tagged_here=bool(_git(folder, "tag", "--list", tag, "--points-at", "HEAD")),
        )

    def faults(self) -> Iterator[str]:
        """What stands in the way of a release, each with what to do."""
        version, date = self.changelog
        if version != self.version:
            yield (
                f"CHANGELOG.md begins with version {version or 'none'} and pyproject.toml has "
                f"{self.version}: write ## [{self.version}] - YYYY-MM-DD above its newest changes"
            )
        elif not DATE.fullmatch(date):
            yield f"CHANGELOG.md calls {version} {date!r}: write the date of the release there"
        if self.citation != self.changelog:
            yield (
                f"CITATION.cff has version {self.citation[0]} of {self.citation[1] or 'no date'}: "
                f"write version: {self.version} and date-released: {date}"
            )
        if self.changed:
            yield f"git status names {len(self.changed)} changed or new files: commit or remove them"
        elif not self.tagged:
            yield (
                f"this commit has no tag v{self.version}: "
                f"git tag --annotate v{self.version} --message 'rlexp {self.version}'"
            )
        elif not self.tagged_here:
            yield (
                f"the tag v{self.version} is on another commit: "
                f"git checkout v{self.version}, or raise the version"
            )


def _git(folder: Path, *words: str) -> list[str]:
    command = ["git", "-C", str(folder), *words]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return output.splitlines()


def check(folder: Path = ROOT) -> str | None:
    """The first fault of a checkout as one line, or None."""
    try:
        checkout = Checkout.read(folder)
    except FileNotFoundError as error:
        return f"release: {error.filename} is missing"
    except subprocess.CalledProcessError:
        return f"release: {folder} is no git checkout, and a release is made from a tagged commit"
    return next((f"release: {fault}" for fault in checkout.faults()), None)


def try_commands(program: Path) -> str | None:
    """Run the first commands of a new user in an empty folder; returns the fault, or None."""
    with tempfile.TemporaryDirectory(prefix="rlexp-release-") as folder:
        for words in COMMANDS:
            print("$ rlexp", *words, flush=True)
            code = subprocess.run([program, *words], cwd=folder, check=False).returncode
            if code != 0:
                return f"release: rlexp {' '.join(words)} ended with exit code {code}"
    return None


def main(arguments: list[str]) -> str | None:
    """Check or try; returns the line of the fault, or None."""
    match arguments:
        case ["check"]:
            return check()
        case ["try", program]:
            return try_commands(Path(program).absolute())
        case _:
            return "release: use release.py check, or release.py try RLEXP"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
