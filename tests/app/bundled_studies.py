"""A study of made-up runs, its bundle, and functions that tamper with a bundle."""

import hashlib
import json
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from command_line import Printed, rlexp
from stored_runs import Stored, configuration, stored

from rlexp.app.bundling.wheel import pack_wheel
from rlexp.store.layout import Layout
from rlexp.store.ledger_writer import LedgerWriter

SHORT = ("--set", "section=[provenance,protocol,aggregates]")
"""Sections of the report of a small bundle: fewer files, and less time."""


_packed = cache(pack_wheel)


def quick_bundles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out figures, which take most of the time, and pack rlexp once."""
    monkeypatch.setattr("rlexp.app.commands.exchange.bundle.can_draw", lambda: False)
    for module in ("bundle", "verify_bundle"):
        monkeypatch.setattr(f"rlexp.app.commands.exchange.{module}.pack_wheel", _packed)


def two_labels(folder: Path, name: str = "alpha", runs: int = 3) -> Stored:
    """An experiment of two labels whose runs are in its ledger."""
    labels = configuration("ppo"), configuration("a2c")
    experiment = stored(Layout(folder / "runs"), name, *labels, test=runs)
    for number, label in enumerate(("ppo", "a2c")):
        for seed in range(runs):
            run = experiment.complete(seed, 10.0 * seed + 3 * number, label=label)
            run.model.write_text(f"policy {name} {label} {seed}")
            LedgerWriter(experiment.paths).enter(run, 1)
    return experiment


def unpack(archive: Path, folder: Path) -> Path:
    """Unpack a bundle into a new folder; returns the folder."""
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(folder)
    return folder


def verified(folder: Path, name: str = "./bundle", *words: str) -> tuple[int, list[str]]:
    """The exit code and the lines of `rlexp verify` for a bundle."""
    printed: Printed = rlexp(folder, "verify", name, *words)
    return printed.code, printed.out.splitlines()


def sum_again(bundle: Path, **changes: Any) -> None:
    """Write the sums of all files into the manifest, as a forger does, and change other values."""
    path = bundle / "bundle.json"
    manifest = json.loads(path.read_text())
    files = [p for p in bundle.rglob("*") if p.is_file() and p != path]
    manifest["files"] = {
        p.relative_to(bundle).as_posix(): {
            "bytes": p.stat().st_size,
            "sha256": hashlib.sha256(p.read_bytes()).hexdigest(),
        }
        for p in sorted(files)
    }
    path.write_text(json.dumps({**manifest, **changes}))


def replace_text(path: Path, before: str, after: str) -> None:
    """Replace the first occurrence of a text in a file."""
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1))
