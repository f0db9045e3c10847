"""W&B's folders of runs: those that are being written, and those that `wandb sync` may take."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MARK = "rlexp.json"
"""In a finished folder: the step up to which it and those before it have every row."""


@dataclass(frozen=True, slots=True)
class Folders:
    """The folders below one.

    `wandb sync` appends whatever a folder holds: a row in two of them is in the service twice. So
    a folder is kept out of its sight until it is finished, and the next begins where it ends.

    Attributes:
        root: Holds W&B's own folder, `wandb`.
    """

    root: Path

    @property
    def finished(self) -> Path:
        """Where `wandb sync` looks."""
        return self.root / "wandb"

    @property
    def unfinished(self) -> Path:
        """What W&B is told to be the root; two levels down, `wandb sync` does not look."""
        folder = self.finished / "unfinished"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def forget_unfinished(self, run_id: str) -> None:
        """Remove what was cut short, or is in the service now."""
        for folder in self._of(self.unfinished / "wandb", run_id):
            shutil.rmtree(folder, ignore_errors=True)

    def forget_unsynced(self, run_id: str) -> None:
        """Remove what was written offline and did not get any further."""
        for folder in self._of(self.finished, run_id):
            if not any(folder.glob("*.synced")):
                shutil.rmtree(folder, ignore_errors=True)

    def finish(self, run_id: str, last: int) -> None:
        """Show a finished folder to `wandb sync`."""
        for folder in self._of(self.unfinished / "wandb", run_id):
            (folder / MARK).write_text(json.dumps({"last": last}) + "\n", encoding="utf-8")
            folder.rename(self._free(folder.name))

    def last_step(self, run_id: str) -> int:
        """The step up to which finished folders have every row; -1 where there are none."""
        last = -1
        for folder in self._of(self.finished, run_id):
            try:
                known = json.loads((folder / MARK).read_text(encoding="utf-8"))
                last = max(last, int(known["last"]))
            except (OSError, ValueError, KeyError, TypeError):
                continue
        return last

    def _free(self, name: str) -> Path:
        """A path of that name, or of one like it: W&B's names hold seconds and no less."""
        paths = [self.finished / name, *(self.finished / f"{name}-{n}" for n in range(2, 1000))]
        return next(path for path in paths if not path.exists())

    @staticmethod
    def _of(folder: Path, run_id: str) -> Iterator[Path]:
        yield from list(folder.glob(f"*run-*-{run_id}*"))
