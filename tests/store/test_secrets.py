"""Secrets: known by their names, gone from whatever is written."""

import string
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlexp.store.secrets import MASK, is_secret_name, mask, mask_all, mask_code, secret_values

SECRET = "s3cr3t-value"


@pytest.mark.parametrize(
    "name",
    [
        "WANDB_API_KEY",
        "apikey",
        "api-key",
        "AWS_SECRET_ACCESS_KEY",
        "HF_TOKEN",
        "token",
        "db_password",
        "PASSWD",
        "google_credentials",
        "SENTRY_DSN",
        "A_B_C_D_E_F_G_H_API_KEY",
    ],
)
def test_a_name_tells_a_secret(name: str) -> None:
    """Names of variables and keys, however they are written."""
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name", ["num_tokens", "monkey", "keys", "PATH", "learning_rate", "token_count", "", "bypass"]
)
def test_a_name_that_only_looks_alike_is_none(name: str) -> None:
    """Hyperparameters are not hidden."""
    assert not is_secret_name(name)


def test_secret_values_are_those_of_secret_names() -> None:
    """Short values are left: masking them would tear every text apart."""
    environment = {"API_KEY": SECRET, "TOKEN": "1", "HOME": "/home/someone", "X_TOKEN": "abcdef"}
    assert {SECRET, "abcdef"} == secret_values(environment)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("api_key=abc rest", f"api_key={MASK} rest"),
        ("API_KEY: abc", f"API_KEY: {MASK}"),
        ("tracker.api_key=abc", f"tracker.api_key={MASK}"),
        ("--token=abc&x=1", f"--token={MASK}&x=1"),
        ('{"password": "a b, c"}', f'{{"password": "{MASK}"}}'),
        ("password='it has spaces'", f"password='{MASK}'"),
        ("https://me:pw@host/x", f"https://{MASK}@host/x"),
        ("git+ssh://token@host", f"git+ssh://{MASK}@host"),
        ("num_tokens=5", "num_tokens=5"),
        ("learning_rate=0.1", "learning_rate=0.1"),
        ("https://host/a@b", "https://host/a@b"),
        ("someone@host", "someone@host"),
        ("monkey=5", "monkey=5"),
        ("", ""),
    ],
)
def test_what_looks_like_a_secret_is_masked(text: str, expected: str) -> None:
    """The rest of the text stays readable."""
    assert expected == mask(text)


@given(st.text(), st.text())
def test_a_known_value_is_masked_wherever_it_stands(before: str, after: str) -> None:
    """Whatever surrounds it."""
    assert SECRET not in mask(before + SECRET + after, frozenset({SECRET}))


def test_a_value_within_another_leaves_nothing_of_the_longer() -> None:
    """The longest is masked first."""
    assert MASK == mask("abcdef-ghi", frozenset({"abcdef", "abcdef-ghi"}))


@given(st.text())
def test_masking_again_changes_nothing(text: str) -> None:
    """What was masked once is safe, and stays as it is."""
    assert mask(text) == mask(mask(text))


arguments = st.text(string.ascii_lowercase, max_size=8)
structures = st.recursive(
    arguments | st.integers() | st.none() | st.just(f"x {SECRET} y"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(arguments, inner, max_size=3),
)


@given(structures)
def test_no_depth_hides_a_secret(structure: Any) -> None:
    """Structures keep their shape and lose the value."""
    masked = mask_all(structure, frozenset({SECRET}))
    assert SECRET not in repr(masked)
    assert type(structure) is type(masked)


def test_a_value_under_a_secret_name_is_masked_whatever_it_is() -> None:
    """Numbers, which cannot be told from settings, are left."""
    document = {"api_key": "abc", "max_token": 5, "list": [{"password": ""}], "pair": ("a", "b")}
    assert {
        "api_key": MASK,
        "max_token": 5,
        "list": [{"password": MASK}],
        "pair": ["a", "b"],
    } == mask_all(document)


@pytest.mark.parametrize("unit", ["a", "a-", "ab_", "key", "a://", "-", "key_", "x="])
def test_a_long_line_takes_no_time(unit: str) -> None:
    """A minified file in a diff must not stop a command."""
    text = unit * (100_000 // len(unit))
    begin = time.process_time()
    mask(text)
    assert time.process_time() - begin < 2


def test_code_is_masked_only_where_a_literal_stands() -> None:
    """A patch keeps its annotations and loses its passwords."""
    code = 'key: int = 3\ntoken = read()\nAPI_KEY = "abcdef123"\n"password": \'hunter22\',\n'
    expected = f'key: int = 3\ntoken = read()\nAPI_KEY = "{MASK}"\n"password": "{MASK}",\n'
    assert expected == mask_code(code)


@pytest.mark.parametrize(
    "text", ["Authorization: Bearer abcdefgh12345", "basic QWxhZGRpbjpvcGVu=="]
)
def test_a_bearer_is_masked(text: str) -> None:
    """What follows the word is gone."""
    assert mask(text).endswith(MASK)


@pytest.mark.parametrize("name", ["PGPASSWORD", "MYSQL_PWD"])
def test_names_of_database_passwords_are_secret(name: str) -> None:
    """Names without an underscore before `password` count too."""
    assert is_secret_name(name)


def test_the_working_folder_is_no_secret() -> None:
    """Shells keep it in PWD; masking its value would mask every path."""
    assert not is_secret_name("PWD")
