"""The register of protocols: sealed studies in a chain, never changed, each name once."""

import json
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from protocol_samples import SETTINGS, registration
from stored_runs import configuration

from rlexp.errors import HeldError, RecordError
from rlexp.protocol.identity import digest
from rlexp.store.layout import Layout
from rlexp.store.locks.lease import hold
from rlexp.store.registers.protocols import enter_registration, read_protocols

SECOND = registration("second", nonce="another beacon")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A folder with a register of two registrations."""
    for registered in (registration(), SECOND):
        enter_registration(Layout(tmp_path), registered)
    return Layout(tmp_path)


def lines(layout: Layout) -> list[str]:
    """The lines of the register."""
    return layout.protocols.read_text().splitlines()


def test_what_was_registered_is_read_back(layout: Layout) -> None:
    """Every registration is read with its hash and root, and nothing is wrong with the chain."""
    register = read_protocols(layout)
    assert ((), False, 2) == (register.breaks, register.torn, len(register.sums))
    expected = [registration().plain(), SECOND.plain()]
    assert expected == [r.plain() for r in register.registrations]


def test_the_root_depends_on_every_sealed_part_and_on_the_nonce() -> None:
    """Another question, label, budget, seed, rule, metric, margin or nonce gives another root."""
    changed = [
        registration(question="Is a2c better than ppo?"),
        registration(configurations=(configuration("ppo"),)),
        registration(configurations=(configuration("ppo"), configuration("a2c", steps=200))),
        registration(
            configurations=(configuration("ppo"), replace(configuration("a2c"), label="other"))
        ),
        registration(seeds=6),
        registration(failures="worst"),
        registration(settings={**SETTINGS, "metrics": ["mean", "iqm"]}),
        registration(settings={**SETTINGS, "margin": 10.0}),
        registration(nonce="beacon 4000001"),
    ]
    roots = {r.root for r in (registration(), *changed)}
    assert len(changed) + 1 == len(roots)
    assert registration().root == registration("other name", time=1.0).root


def test_the_same_registration_adds_no_line(layout: Layout) -> None:
    """The same command after a kill returns the first registration, with its time."""
    before = layout.protocols.read_bytes()
    again = enter_registration(layout, registration(time=9e9, nonce_source="elsewhere"))
    assert registration().time == again.time
    assert before == layout.protocols.read_bytes()


def test_a_name_is_registered_once(layout: Layout) -> None:
    """Another study, or another nonce, under the same name is refused."""
    for other in (registration(question="Another?"), registration(nonce="beacon 4000001")):
        with pytest.raises(RecordError, match="never changed: choose another name"):
            enter_registration(layout, other)
    assert 2 == len(lines(layout))


def test_the_same_test_seeds_have_one_name(layout: Layout) -> None:
    """The same study with the same nonce under another name is refused."""
    with pytest.raises(RecordError, match="registered with this nonce as duel"):
        enter_registration(layout, registration("third"))


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize(
    "edit",
    [
        ('"question":"Is ppo', '"question":"Was ppo'),
        ('"margin":20.0', '"margin":10.0'),
        ('"seeds":5', '"seeds":3'),
        ('"steps":100', '"steps":10'),
        ("beacon", "Beacon"),
        ('"label":"ppo"', '"label":"sac"'),
        ('"nonce_source":"drand"', '"nonce_source":"dice"'),
    ],
    ids=lambda edit: edit[1],
)
def test_an_edited_registration_is_found(
    layout: Layout, number: int, edit: tuple[str, str]
) -> None:
    """An edit of any sealed part is found in any line, and the line counts no more."""
    edited = lines(layout)
    assert edit[0] in edited[number]
    edited[number] = edited[number].replace(*edit)
    layout.protocols.write_text("\n".join(edited) + "\n")
    register = read_protocols(layout)
    assert register.breaks
    assert 1 == len(register.registrations)


def test_an_edit_with_a_new_checksum_is_found(layout: Layout) -> None:
    """Whoever computes the checksum of the last line anew has still another hash and root."""
    for changes, sentence in (
        ({"nonce": "chosen by me"}, "its root does not follow from its hash and its nonce"),
        ({"root": 5}, "its root does not follow"),
        ({"hash": "0" * 64}, "its hash is not that of its study"),
    ):
        document = {**json.loads(lines(layout)[1]), **changes}
        values = {k: v for k, v in document.items() if k not in {"schema", "before", "sum"}}
        document["sum"] = digest(values)
        line = json.dumps(document, separators=(",", ":"))
        whole = layout.protocols.read_bytes()
        layout.protocols.write_text(f"{lines(layout)[0]}\n{line}\n")
        assert any(sentence in message for message in read_protocols(layout).breaks)
        layout.protocols.write_bytes(whole)


def test_a_removed_registration_breaks_the_chain(layout: Layout) -> None:
    """A register without its first line is found to be changed."""
    layout.protocols.write_text(lines(layout)[1] + "\n")
    (message,) = read_protocols(layout).breaks
    assert "does not follow from nothing" in message


def test_a_register_cut_at_any_byte_is_whole_after_the_next_registration(layout: Layout) -> None:
    """After a kill or a power cut in the middle of writing, the same command makes it whole."""
    content = layout.protocols.read_bytes()
    for cut in range(content.index(b"\n") + 1, len(content), 401):
        layout.protocols.write_bytes(content[:cut])
        enter_registration(layout, SECOND)
        assert content == layout.protocols.read_bytes()


def test_a_registration_waits_for_the_lock(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While another process holds the lock, nothing is written."""
    monkeypatch.setattr("rlexp.store.registers.protocols.PATIENCE", 0.0)
    before = layout.protocols.read_bytes()
    with (
        hold(layout.protocols_lock, "the register", now=0.0),
        pytest.raises(HeldError, match="register of protocols is in use"),
    ):
        enter_registration(layout, registration("third", nonce="a third beacon"))
    assert before == layout.protocols.read_bytes()


@pytest.mark.parametrize(
    "values",
    [
        {"study": None},
        {"time": "x"},
        {"study": {"seeds": True}},
        {"study": {"settings": {}}},
        {"study": {"configurations": [{}]}},
    ],
    ids=str,
)
def test_a_damaged_line_is_an_unreadable_registration(
    layout: Layout, values: dict[str, object]
) -> None:
    """A line without the fields of a registration is named and raises nothing."""
    document = json.loads(lines(layout)[1])
    study = values.pop("study", {})
    document |= values
    document["study"] = {**document["study"], **study} if isinstance(study, dict) else study
    layout.protocols.write_text(f"{lines(layout)[0]}\n{json.dumps(document)}\n")
    register = read_protocols(layout)
    assert 1 == len(register.registrations)
    assert any("line 2 cannot be read" in message for message in register.breaks)


SENSELESS: tuple[object, ...] = (
    float("inf"),
    float("nan"),
    10**400,
    -1,
    True,
    None,
    "",
    "\ud800",
    [],
    {},
    [[]],
    {"a": 1},
)
"""Values that a hand, a program or a disk may have put in the place of another one."""


def leaves(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container of a document with each of its keys or indices."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in list(items):
        yield value, key
        if isinstance(inner, dict | list):
            yield from leaves(inner)


def test_no_senseless_value_of_a_line_raises(layout: Layout) -> None:
    """Every value of a line is replaced by senseless ones: the line is named, and nothing raises."""
    first, second = lines(layout)
    count = len(list(leaves(json.loads(second))))
    assert count > 30
    for place in range(count):
        for value in SENSELESS:
            document = deepcopy(json.loads(second))
            container, key = list(leaves(document))[place]
            if container[key] == value and type(container[key]) is type(value):
                continue
            container[key] = value
            layout.protocols.write_text(f"{first}\n{json.dumps(document)}\n")
            register = read_protocols(layout)
            assert register.breaks, (key, value)
            assert all(r.registered and r.plain() for r in register.registrations)


@pytest.mark.parametrize("time", ["1e999", "1e300", "NaN", "-1e999", "9e11", "true"])
def test_a_senseless_time_is_an_unreadable_registration(layout: Layout, time: str) -> None:
    """A time that no calendar has makes the line unreadable, also with its checksum computed anew."""
    document = json.loads(lines(layout)[1])
    values = {k: v for k, v in document.items() if k not in {"schema", "before", "sum"}}
    values["time"] = json.loads(time)
    # Infinite values have no checksum.
    with suppress(ValueError):
        document["sum"] = digest(values)
    edited = json.dumps({**document, "time": "TIME"}).replace('"TIME"', time)
    layout.protocols.write_text(f"{lines(layout)[0]}\n{edited}\n")
    register = read_protocols(layout)
    assert 1 == len(register.registrations)
    assert any("line 2 cannot be read: not a registration" in text for text in register.breaks)
