"""Secrets are recognised by their names and masked in everything that is written."""

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
def test_secret_names(name: str) -> None:
    """Names of secrets are recognised in any spelling."""
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name", ["num_tokens", "monkey", "keys", "PATH", "learning_rate", "token_count", "", "bypass"]
)
def test_names_that_resemble_secret_names(name: str) -> None:
    """Names of hyperparameters and paths are not secret."""
    assert not is_secret_name(name)


def test_secret_values_are_those_of_secret_names() -> None:
    """Values of secret names are secret, except very short ones."""
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
    """A secret value in a text is masked, and the other parts stay readable."""
    assert expected == mask(text)


@given(st.text(), st.text())
def test_a_secret_is_masked_inside_any_text(before: str, after: str) -> None:
    """A known secret is masked inside any text."""
    assert SECRET not in mask(before + SECRET + after, frozenset({SECRET}))


def test_a_value_within_another_leaves_nothing_of_the_longer() -> None:
    """If one secret contains another, the longer one is masked completely."""
    assert MASK == mask("abcdef-ghi", frozenset({"abcdef", "abcdef-ghi"}))


@given(st.text())
def test_masking_again_changes_nothing(text: str) -> None:
    """Masking a masked text again leaves it unchanged."""
    assert mask(text) == mask(mask(text))


arguments = st.text(string.ascii_lowercase, max_size=8)
structures = st.recursive(
    arguments | st.integers() | st.none() | st.just(f"x {SECRET} y"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(arguments, inner, max_size=3),
)


@given(structures)
def test_no_depth_hides_a_secret(structure: Any) -> None:
    """Secrets are masked in structures of any depth, and the structure keeps its type."""
    masked = mask_all(structure, frozenset({SECRET}))
    assert SECRET not in repr(masked)
    assert type(structure) is type(masked)


def test_texts_under_a_secret_name_are_masked() -> None:
    """Any text under a secret name is masked; a number is left, because it may be a setting."""
    document = {"api_key": "abc", "max_token": 5, "list": [{"password": ""}], "pair": ("a", "b")}
    assert {
        "api_key": MASK,
        "max_token": 5,
        "list": [{"password": MASK}],
        "pair": ["a", "b"],
    } == mask_all(document)


@pytest.mark.parametrize("unit", ["a", "a-", "ab_", "key", "a://", "-", "key_", "x="])
def test_a_long_line_is_masked_fast(unit: str) -> None:
    """A line of 100,000 characters is masked in less than two seconds."""
    text = unit * (100_000 // len(unit))
    begin = time.process_time()
    mask(text)
    assert time.process_time() - begin < 2


def test_code_is_masked_only_where_a_literal_stands() -> None:
    """In code, only literals are masked; annotations and calls stay."""
    code = 'key: int = 3\ntoken = read()\nAPI_KEY = "abcdef123"\n"password": \'hunter22\',\n'
    expected = f'key: int = 3\ntoken = read()\nAPI_KEY = "{MASK}"\n"password": "{MASK}",\n'
    assert expected == mask_code(code)


@pytest.mark.parametrize(
    "text", ["Authorization: Bearer abcdefgh12345", "basic QWxhZGRpbjpvcGVu=="]
)
def test_authorization_headers_are_masked(text: str) -> None:
    """The credentials after `Bearer` or `basic` are masked."""
    assert mask(text).endswith(MASK)


@pytest.mark.parametrize("name", ["PGPASSWORD", "MYSQL_PWD"])
def test_names_of_database_passwords_are_secret(name: str) -> None:
    """Names of database passwords without an underscore are secret."""
    assert is_secret_name(name)


def test_the_working_folder_is_no_secret() -> None:
    """PWD is not secret, because it holds a path."""
    assert not is_secret_name("PWD")
