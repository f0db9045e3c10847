"""A full disk or a kill between a document's entry in the ledger and the document itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from in_full import IN_FULL, long
from injection import fail_at, kill_at, traced
from studies import StudyFolder, new_study
from tracing import injecting

from rlexp.app.reading.experiment_scan import survey
from rlexp.app.reading.integrity import examine
from rlexp.records.ledger import DOCUMENTS, RemovedRun
from rlexp.store.layout import ExperimentPaths
from rlexp.store.registers.ledger import append_entry, publish_document, read_ledger

pytestmark = traced

QUICK = ("experiment=x", "budget.steps=3000", "budget.evaluation_every=1000")
PUBLISHING = """
import sys
from pathlib import Path
from rlexp.store.layout import ExperimentPaths
from rlexp.store.registers.ledger import publish_document

paths = ExperimentPaths(Path(sys.argv[1]))
publish_document(paths, paths.folder / sys.argv[2], {"second": 2})
"""


@pytest.fixture
def study(tmp_path: Path) -> Iterator[StudyFolder]:
    """A study with two finished runs, the last of which is missing in the ledger."""
    with new_study(tmp_path / "study", quick=True, warm=True) as study:
        assert study.give("run", *QUICK, "seeds.test=2")[0] == 0
        ledger = paths_of(study).ledger
        ledger.write_bytes(b"".join(ledger.read_bytes().splitlines(keepends=True)[:-1]))
        yield study


def paths_of(study: StudyFolder) -> ExperimentPaths:
    """The paths of the experiment."""
    return ExperimentPaths(study.folder / "runs" / "x")


def faults(paths: ExperimentPaths) -> list[str]:
    """The faults that `rlexp verify` finds."""
    return [finding.text for finding in examine(survey(paths)).faults]


def extend_in_vain(study: StudyFolder, what: str) -> None:
    """Ask for more seeds while the disk fails: the definition is entered, but not written."""
    paths = paths_of(study)
    before, lines = paths.definition.read_bytes(), len(paths.ledger.read_bytes().splitlines())
    # The first rename belongs to the check that the folder can be written.
    disturbed = injecting("rename", what, "2", study.folder / "trace")
    code, output = study.give("run", *QUICK, "seeds.test=3", before=disturbed)
    assert code != 0, output
    assert "Traceback" not in output
    assert before == paths.definition.read_bytes()
    assert lines + 1 == len(paths.ledger.read_bytes().splitlines())
    assert [] == faults(paths)


@pytest.mark.parametrize("what", ["error=ENOSPC", "signal=KILL"])
@long
def test_a_run_after_an_extension_in_vain_matches(study: StudyFolder, what: str) -> None:
    """After a failed extension the original command and a new extension match the ledger."""
    extend_in_vain(study, what)
    code, output = study.give("run", *QUICK, "seeds.test=2")
    assert (0, True) == (code, "nothing to run" in output), output
    ledger = read_ledger(paths_of(study))
    assert ledger is not None
    assert getattr(ledger.entries[-1], "late", False)
    assert [] == faults(paths_of(study))
    assert study.give("run", *QUICK, "seeds.test=4")[0] == 0
    code, output = study.give("verify")
    assert (0, True) == (code, output.startswith("x: 4 of 4 attempts match the ledger")), output


@long
def test_a_removal_after_an_extension_in_vain_matches(study: StudyFolder) -> None:
    """After a failed extension a removal and a further extension match the ledger."""
    extend_in_vain(study, "error=ENOSPC")
    name = paths_of(study).runs()[0].folder.name
    assert study.give("rm", f"x/{name}", "--yes")[0] == 0
    assert [] == faults(paths_of(study))
    assert study.give("run", *QUICK, "seeds.test=3")[0] == 0
    assert [] == faults(paths_of(study))
    assert (0, True) == (study.give("verify")[0], b'"test": 3' in definition(study))


def definition(study: StudyFolder) -> bytes:
    """The content of the experiment's definition."""
    return paths_of(study).definition.read_bytes()


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize("earlier", [False, True] if IN_FULL else [True])
@pytest.mark.parametrize("killed", [False, True] if IN_FULL else [True])
def test_any_document_that_was_not_written_matches(
    tmp_path: Path, name: str, *, earlier: bool, killed: bool
) -> None:
    """A document that was entered but never written is no fault, whatever is entered next."""
    paths = ExperimentPaths(tmp_path)
    path = paths.folder / name
    if earlier:
        publish_document(paths, path, {"first": 1})
    arguments = (PUBLISHING, tmp_path, name)
    # The first fsync is that of the ledger, the second that of the document.
    outcome = (
        kill_at("fsync", 2, *arguments) if killed else fail_at("fsync", 2, "ENOSPC", *arguments)
    )
    assert (True, True) == (outcome.hit, outcome.code != 0)
    assert earlier == path.exists()
    accused = {f"{name} is not what was written", f"{name} is gone"}
    for _ in range(2):
        assert not accused & set(faults(paths))
        append_entry(paths, RemovedRun(run="one"))
    publish_document(paths, path, {"third": 3})
    assert not accused & set(faults(paths))
