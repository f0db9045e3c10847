"""Files of unknown origin: no pickle is loaded, no link is followed, nonsense is one line."""

import io
import json
import random
import shutil
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from canaries import Canaries
from foreign_studies import ForeignStudy, foreign_study, lose
from in_full import long

from rlexp.store.checkpoints.manifest import Manifest, Sum, decode_manifest
from rlexp.store.layout import RunPaths
from rlexp.training.learner_state import unpack

LOOKING = (
    ("ls", "NAME"),
    ("status", "NAME"),
    ("show", "NAME"),
    ("show", "NAME", "--config"),
    ("show", "NAME", "--provenance"),
    ("show", "RUN"),
    ("logs", "RUN"),
    ("diff", "RUN", "OTHER"),
    ("compare", "NAME"),
    ("report", "NAME", "--format", "html,md", "--output", "REPORT"),
    ("verify", "NAME"),
    ("cancel", "NAME"),
    ("rm", "NAME"),
)
"""Commands that execute nothing."""


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> ForeignStudy:
    """A study with a real run and a real sweep."""
    return foreign_study(tmp_path_factory)


def look(study: ForeignStudy, name: str) -> None:
    """Give every command of LOOKING; each ends with a result or one refusal."""
    runs = [f"{name}/{run.folder.name}" for run in study.experiment(name).runs()] or [name]
    report = str(study.folder / "reports" / "told")
    places = {"NAME": name, "RUN": runs[0], "OTHER": runs[-1], "REPORT": report}
    for arguments in LOOKING:
        study.check(study.give(*(places.get(word, word) for word in arguments)), 0, 1, 2)


def recast(run: RunPaths, change: Callable[[str, bytes], bytes]) -> None:
    """Change files of a run's checkpoints, and their hashes to match."""
    for bundle in run.checkpoints.iterdir():
        path = bundle / "manifest.json"
        manifest = decode_manifest(path.read_bytes())
        files = {}
        for name in manifest.files:
            content = change(name, (bundle / name).read_bytes())
            (bundle / name).write_bytes(content)
            files[name] = Sum.of(content)
        changed = Manifest(
            step=manifest.step, about=manifest.about, files=files, oldest=manifest.oldest
        )
        path.write_bytes(changed.encode())


@long
def test_pickles_stay_closed(study: ForeignStudy) -> None:
    """No command that reads or plays a run loads a pickle that hides in it."""
    paths = study.copy("pickles")
    for run in paths.runs():
        hide_pickles(run, study.canaries)
    look(study, "pickles")
    for arguments in ((), ("--checkpoint", "64")):
        study.check(
            study.give("evaluate", f"pickles/{paths.runs()[-1].folder.name}", *arguments), 2
        )


def test_nothing_goes_on_from_pickles(study: ForeignStudy) -> None:
    """Checkpoints with pickles and matching hashes are refused, and the run begins anew."""
    paths = study.copy("checkpoints")
    shutil.rmtree(paths.runs()[0].folder)
    run = paths.runs()[0]
    hide_pickles(run, study.canaries)
    lose(run)
    study.check(study.give("resume", f"checkpoints/{run.folder.name}"), 0)
    events = [json.loads(line) for line in run.attempt(2).journal.read_text().splitlines()]
    refused = [(e["step"], e["reason"]) for e in events if e["event"] == "refused"]
    assert [128, 64] == [step for step, _ in refused]
    assert all("allow_pickle=False" in reason for _, reason in refused)
    assert "completed" == events[-1]["ending"]


def test_experience_is_no_pickle() -> None:
    """Experience in a pickle is refused."""
    content = io.BytesIO()
    np.savez(content, allow_pickle=True, tree=np.array([{}], dtype=object))
    with pytest.raises(ValueError, match="allow_pickle=False"):
        unpack(content.getvalue())


def test_archive_that_fills_the_memory_is_refused(study: ForeignStudy) -> None:
    """An archive that would unpack to 256 MB is refused before it is unpacked."""
    run = study.copy("bomb").runs()[0]
    with zipfile.ZipFile(run.model, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("policy.pth", bytes(1 << 28))
    result = study.give("evaluate", f"bomb/{run.folder.name}")
    study.check(result, 2)
    assert "would unpack to 268,435,456 bytes" in result.text


def hide_pickles(run: RunPaths, canaries: Canaries) -> None:
    """Put a pickle into every file of a run that could be loaded as one."""

    def replacement(name: str, content: bytes) -> bytes:
        if name != "model.zip":
            return canaries.objects(name)
        return canaries.model(io.BytesIO(content))

    recast(run, replacement)
    run.model.write_bytes(canaries.model(run.model))
    run.normalisation.write_bytes(canaries.objects("normalisation"))
    for name in ("evaluations.npz", "progress.bin", "progress.csv", "0.monitor.csv", "log.txt"):
        (run.attempt(1).folder / name).write_bytes(canaries.pickled(name))
    (run.folder.parent / "optuna.journal").write_bytes(canaries.pickled("journal"))


NONSENSE: tuple[Any, ...] = (
    *(None, True, -1, 10**400, 1e308, float("inf"), float("nan"), "", "x" * 10_000, [], {}),
    *("../../x", "/etc/passwd", "\x1b[2J\u202e</script>", [[]], {"": None}, ["a"] * 1000),
)


def with_nonsense(document: Any, generator: random.Random) -> Any:
    """A copy of a structure in which one value is replaced by nonsense."""
    if not isinstance(document, dict | list) or not document or generator.random() < 0.1:
        return generator.choice(NONSENSE)
    copy: Any = dict(document) if isinstance(document, dict) else list(document)
    location = generator.choice(list(copy) if isinstance(copy, dict) else range(len(copy)))
    copy[location] = with_nonsense(copy[location], generator)
    return copy


@pytest.mark.parametrize(
    "seed", [0, 1, 2, 5, *(pytest.param(seed, marks=long) for seed in (3, 4, 6, 7, 23))]
)
def test_nonsense_is_no_traceback(study: ForeignStudy, seed: int) -> None:
    """Random nonsense in JSON files gives a result or one refusal in every command."""
    generator = random.Random(seed)
    experiment = generator.choice(("base", "search"))
    paths = study.copy(f"nonsense-{seed}", of=experiment)
    for path in sorted(paths.folder.rglob("*.json*")):
        if generator.random() < 0.5:
            lines = (
                path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
            )
            location = generator.randrange(len(lines))
            changed = with_nonsense(json.loads(lines[location]), generator)
            lines[location] = json.dumps(changed)
            path.write_text("\n".join(lines) + "\n")
    look(study, paths.name)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"schema": 1, "x": ' + "[" * 500 + "]" * 500 + "}", "\0" * 100, ""]
)
@pytest.mark.parametrize(
    "location", ["experiment.json", "spec.json", "events.jsonl", "verdict.json"]
)
def test_deep_nesting_is_damage(study: ForeignStudy, location: str, text: str) -> None:
    """Deeply nested, empty or damaged JSON gives a result or one refusal."""
    paths = study.copy(f"deep-{location}-{len(text)}")
    run = paths.runs()[0]
    attempt = run.attempt(1)
    files = {"experiment.json": paths.definition, "spec.json": run.spec}
    files |= {"events.jsonl": attempt.journal, "verdict.json": attempt.verdict}
    files[location].write_text(text + "\n")
    for arguments in (("show", paths.name), ("ls", paths.name), ("rm", paths.name)):
        study.check(study.give(*arguments), 0, 1, 2)
