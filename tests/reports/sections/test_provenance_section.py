"""Provenance in a report."""

import json
from dataclasses import replace
from typing import Any

from evidence_samples import (
    PROVENANCE,
    configured,
    empty,
    evidence,
    incomplete,
    inquiry,
    nothing_run,
    reordered,
    scored,
    typical,
)
from part_blocks import column, notices, of_kind, part_of, table

from rlexp.reports.drawing.blocks import Table, Tone, VerbatimText
from rlexp.reports.evidence.runs import Evidence
from rlexp.reports.sections.provenance import ProvenanceSection


def mixed_provenance(**changes: Any) -> Evidence:
    """Three runs, the last of which has changed provenance."""
    runs = scored(configured(), [1.0, 2.0, 3.0])
    return evidence([*runs[:2], replace(runs[2], provenance={**PROVENANCE, **changes})])


def test_runs_of_one_commit_are_put_together() -> None:
    """Runs of one commit share a row with their number and labels."""
    code_table = table(part_of(ProvenanceSection(), typical()), "code")
    assert (("aaaaaaaaaaaa", "main", None, None, 30, "all"),) == code_table.rows


def test_another_commit_has_a_row() -> None:
    """A second commit has a row with its changed files."""
    code = {**PROVENANCE["code"], "commit": "b" * 40, "dirty": ["x.py"]}
    code_table = table(part_of(ProvenanceSection(), mixed_provenance(code=code)), "code")
    assert [2, 1] == column(code_table, "runs")
    assert [None, "x.py"] == column(code_table, "changed files")
    assert ["ppo", "ppo"] == column(code_table, "labels")


def test_a_missing_commit_has_a_row() -> None:
    """A folder without git gives the row `no commit`."""
    code_table = table(part_of(ProvenanceSection(), mixed_provenance(code={})), "code")
    assert ["aaaaaaaaaaaa", "no commit"] == column(code_table, "commit")


def test_packages_that_matter_are_listed_by_version() -> None:
    """The table lists Python and the packages that can change a score."""
    versions = {**PROVENANCE["packages"], "torch": "2.9.0", "rich": "14"}
    packages_table = table(
        part_of(ProvenanceSection(), mixed_provenance(packages=versions)), "packages"
    )
    torch = [row for row in packages_table.rows if row[0] == "torch"]
    assert [("torch", "2.8.0", 2, "ppo"), ("torch", "2.9.0", 1, "ppo")] == torch
    assert "3.11.7" == next(row[1] for row in packages_table.rows if row[0] == "python")
    assert "rich" not in column(packages_table, "package")


def test_hardware_is_listed_with_threads_and_device() -> None:
    """The table has the machine, and threads and device of a run."""
    hardware_table = table(part_of(ProvenanceSection(), typical()), "hardware")
    assert (("Example 3000", 2, 8.0, "Linux", 1, "cpu", 30, "all"),) == hardware_table.rows


def test_commands_are_listed_once() -> None:
    """Equal commands are listed once, quoted for a shell."""
    part = part_of(
        ProvenanceSection(), mixed_provenance(command=["rlexp", "run", "experiment=a b"])
    )
    listing = next(b for b in of_kind(part, VerbatimText) if b.name == "commands")
    assert "rlexp run 'experiment=a b'\nrlexp run algorithm=ppo,a2c,dqn" == listing.text


def test_every_configuration_is_listed_whole() -> None:
    """A configuration lists all settings of a run except its seed."""
    listings = [
        b
        for b in of_kind(part_of(ProvenanceSection(), typical()), VerbatimText)
        if b.name != "commands"
    ]
    assert 6 == len(listings)
    assert "Configuration of ppo on CartPole-v1" == listings[0].title
    settings = typical().members[0].record.spec.plain()
    expected = {k: v for k, v in settings.items() if k not in {"phase", "root", "seed"}}
    assert expected == json.loads(listings[0].text)


def test_runs_without_provenance_are_warned_of() -> None:
    """Started runs without provenance give a warning."""
    run = scored(configured(), [1.0])[0]
    sample = evidence([replace(run, provenance={})])
    expected = f"The origin of 1 run is not known: {run.name}."
    assert [(Tone.WARNING, expected)] == notices(part_of(ProvenanceSection(), sample))


def test_what_was_never_run_has_only_its_configuration() -> None:
    """Planned runs have a configuration, without tables and warnings."""
    part = part_of(ProvenanceSection(), nothing_run())
    assert ([], []) == (of_kind(part, Table), notices(part))
    assert 2 == len(of_kind(part, VerbatimText))


def test_it_is_folded_and_in_no_order_of_runs() -> None:
    """The section is folded, and the same for runs in another order."""
    part = part_of(ProvenanceSection(), incomplete())
    assert part.folded
    assert part == part_of(ProvenanceSection(), reordered(incomplete(), 3))


def test_an_experiment_without_runs_has_no_part() -> None:
    """An experiment without planned runs has no provenance."""
    assert None is ProvenanceSection().part(inquiry(empty()))
