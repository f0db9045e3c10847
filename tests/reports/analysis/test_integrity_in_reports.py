"""The comparison of records with the ledger in a report, and its use by `--strict`."""

from dataclasses import replace

from evidence_samples import inquiry, typical
from part_blocks import notices, of_kind, part_of, table

from rlexp.records.integrity import Integrity, IntegrityFinding, RecordKind
from rlexp.reports.analysis.checklist import failed_checks
from rlexp.reports.drawing.blocks import Table, Text, Tone
from rlexp.reports.evidence.runs import Evidence
from rlexp.reports.sections.provenance import ProvenanceSection

HEAD = "0123456789abcdef" * 4
CLEAN = Integrity(experiment="sample", attempts=30, matching=30, lines=31, head=HEAD)
MISSING = IntegrityFinding(
    kind=RecordKind.MISSING, text="it is gone, with 1 attempt", run="ppo-test-0-aa"
)
UNSEALED = IntegrityFinding(
    kind=RecordKind.UNSEALED, text="2 attempts of b ended and are not in the ledger"
)
DIFFERENT = replace(CLEAN, matching=29, findings=(MISSING, UNSEALED))


def with_integrity(*integrity: Integrity) -> Evidence:
    """A typical study with these comparisons of its records with the ledger."""
    return replace(typical(), integrity=integrity)


def test_records_that_match_the_ledger_give_one_sentence() -> None:
    """Matching records give a sentence with the head of the ledger, and no warning."""
    part = part_of(ProvenanceSection(), with_integrity(CLEAN))
    expected = "sample: 30 of 30 attempts match the ledger (head 0123456789ab)."
    assert [expected] == [block.text for block in of_kind(part, Text)]
    assert [] == notices(part)
    assert "integrity" not in [block.name for block in of_kind(part, Table)]


def test_records_that_differ_are_a_problem() -> None:
    """A notice names the worst findings, and a table lists all findings."""
    part = part_of(ProvenanceSection(), with_integrity(DIFFERENT))
    expected = (
        "sample: 29 of 30 attempts match the ledger (head 0123456789ab). "
        "Records that differ: ppo-test-0-aa (missing)."
    )
    assert [(Tone.PROBLEM, expected)] == notices(part)
    assert (
        ("sample", "ppo-test-0-aa", "missing", MISSING.text),
        ("sample", None, "unsealed", UNSEALED.text),
    ) == table(part, "integrity").rows


def test_many_faults_are_named_in_part() -> None:
    """A notice about many faults names three of them and counts the others."""
    findings = tuple(replace(MISSING, run=f"run-{n}") for n in range(9))
    ((_, text),) = notices(
        part_of(ProvenanceSection(), with_integrity(replace(DIFFERENT, findings=findings)))
    )
    assert text.endswith("run-0 (missing), run-1 (missing), run-2 (missing) and 6 more.")


def test_a_missing_ledger_is_no_fault() -> None:
    """Records older than the ledger give a sentence and no fault."""
    part = part_of(
        ProvenanceSection(), with_integrity(Integrity(experiment="old", attempts=2, matching=0))
    )
    expected = "old: without a ledger its 2 attempts cannot be verified."
    assert [expected] == [block.text for block in of_kind(part, Text)]


def test_attempts_that_were_entered_late_are_counted() -> None:
    """The sentence about the ledger counts attempts whose end was recorded late."""
    (text,) = of_kind(part_of(ProvenanceSection(), with_integrity(replace(CLEAN, late=2))), Text)
    assert "sample: 30 of 30 attempts match the ledger, 2 entered late (head" in text.text


def test_without_a_comparison_nothing_is_said() -> None:
    """Without a comparison with the ledger, the provenance has no sentence on the ledger."""
    assert [] == of_kind(part_of(ProvenanceSection(), typical()), Text)


def test_strict_refuses_records_that_differ() -> None:
    """`--strict` refuses records that differ, and accepts unsealed records."""
    clean = failed_checks(inquiry(with_integrity(CLEAN)))
    assert clean == failed_checks(inquiry(with_integrity(replace(CLEAN, findings=(UNSEALED,)))))
    expected = "sample: 1 record differs from the ledger"
    assert {expected} == set(failed_checks(inquiry(with_integrity(DIFFERENT)))) - set(clean)
