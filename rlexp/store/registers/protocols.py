"""The register of protocols on disk: a hash chain of lines in `runs/protocols.jsonl`.

A line holds a whole registration: the sealed study, its hash, the nonce and the root of the test seeds.
No line is ever changed or removed.
"""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_args

from rlexp.errors import ConfigError, RecordError
from rlexp.protocol.experiment import Configuration, Failures
from rlexp.records.json_values import as_text, as_whole_number
from rlexp.records.registration import (
    METRIC_DEFINITIONS,
    ProtocolRegister,
    Registration,
    SealedStudy,
)
from rlexp.store.configurations import read_configuration
from rlexp.store.files import append_line_with, parse_json
from rlexp.store.layout import Layout
from rlexp.store.locks.lease import hold
from rlexp.store.registers.hash_chain import chained, read_chain, read_entries
from rlexp.store.schemas import PROTOCOLS

PATIENCE = 10.0
"""Seconds to wait for another command that registers a protocol; that takes milliseconds."""

YEAR_10000 = 253_402_300_800
"""Seconds from 1970 to the first year that a date cannot hold."""

SENSELESS = (
    ArithmeticError,
    AttributeError,
    ConfigError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What a line with values that make no sense raises where it is read."""


def read_protocols(layout: Layout) -> ProtocolRegister:
    """Read the register and check every line and the chain; empty where there is none.

    Raises:
        RecordError: The file cannot be read.
    """
    chain = read_chain(layout.protocols, PROTOCOLS)
    registrations, breaks = read_entries(chain, _read)
    return ProtocolRegister(
        registrations=registrations,
        sums=chain.sums,
        sha256=chain.sha256,
        breaks=breaks,
        torn=chain.torn,
    )


def enter_registration(layout: Layout, registration: Registration) -> Registration:
    """Enter a registration, durably and by one write.

    Returns:
        The registration; the earlier one where the same command has been given before.

    Raises:
        HeldError: Another process holds the lock of the register.
        OSError: The folder cannot be written.
        RecordError: The name is registered with another study or nonce, the same test seeds are
            registered under another name, or the register cannot be read or locked.
    """
    layout.root.mkdir(parents=True, exist_ok=True)
    with hold(
        layout.protocols_lock, "the register of protocols", now=time.time(), patience=PATIENCE
    ):
        register = read_protocols(layout)
        if earlier := _registered(register, registration):
            return earlier
        document = registration.plain()
        append_line_with(layout.protocols, lambda last: chained(last, [document], PROTOCOLS))
    return registration


def _registered(register: ProtocolRegister, registration: Registration) -> Registration | None:
    """The same registration as it was made before."""
    named = register.named(registration.protocol)
    if named is not None and replace(
        registration, time=named.time, looks=named.looks, nonce_source=named.nonce_source
    ).plain() == (named.plain()):
        return named
    if named is not None:
        raise RecordError(
            f"{named.protocol} is registered since {named.registered} with another study or nonce, and "
            "a registration is never changed: choose another name, which counts as a further "
            "registration"
        )
    twin = next((r for r in register.registrations if r.root == registration.root), None)
    if twin is not None:
        raise RecordError(
            f"this study is registered with this nonce as {twin.protocol}, which has the same test "
            f"seeds: type rlexp run --protocol {twin.protocol}"
        )
    return None


def _read(line: bytes) -> Registration:
    try:
        document = parse_json(line)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{error!r}"[:120]) from error
    PROTOCOLS.check(document, "it")
    try:
        registration = _registration(document)
        # Its sums are computed from values of the line, which can be senseless too.
        _check(registration, document)
    except SENSELESS as error:
        raise RecordError(f"not a registration: {error!r}"[:160]) from error
    return registration


def _check(registration: Registration, document: Mapping[str, Any]) -> None:
    """Refuse a line whose derived values are not those of its content."""
    expected = registration.plain()
    for key, sentence in (
        ("hash", "its hash is not that of its study"),
        ("root", "its root does not follow from its hash and its nonce"),
        ("sum", "its checksum is not that of its content"),
    ):
        if document.get(key) != expected[key]:
            raise RecordError(f"{registration.protocol}: {sentence}")


def _registration(document: Mapping[str, Any]) -> Registration:
    study = document["study"]
    seeds = study["seeds"]
    failures: Failures = study["failures"]
    if failures not in get_args(Failures):
        raise ValueError(f"failures={failures!r}")
    _check_metrics(study["settings"])
    return Registration(
        protocol=as_text(document["protocol"]),
        time=_time(document["time"]),
        nonce=as_text(document["nonce"]),
        nonce_source=None
        if document["nonce_source"] is None
        else as_text(document["nonce_source"]),
        looks=None if document["looks"] is None else as_text(document["looks"]),
        study=SealedStudy(
            question=as_text(study["question"]),
            configurations=tuple(
                read_configuration(c, Configuration.schema) for c in study["configurations"]
            ),
            seeds=tuple(map(as_whole_number, seeds))
            if isinstance(seeds, list)
            else as_whole_number(seeds),
            failures=failures,
            settings=study["settings"],
        ),
    )


def _check_metrics(settings: Mapping[str, Any]) -> None:
    names = settings["metrics"]
    if not isinstance(names, list) or not names or not all(isinstance(n, str) for n in names):
        raise ValueError("no metric")
    definitions = settings.get(METRIC_DEFINITIONS, {})
    if not isinstance(definitions, dict) or not all(
        isinstance(definition, dict) for definition in definitions.values()
    ):
        raise ValueError(f"{METRIC_DEFINITIONS} holds no definitions")


def _time(value: Any) -> float:
    # Also false for NaN. For `isinstance`, JSON's `true` is an integer.
    if isinstance(value, bool) or not 0 <= value < YEAR_10000:
        raise ValueError(f"time={value!r} is no time in seconds since 1970")
    return float(value)
