"""RFC 8785 bytes, the scheme for values that it refuses, and the values without a hash."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given

from envelopes.text.canonical_json import NotCanonical, canonical_bytes, hash_value, named_hash
from tests.envelopes.settled import JSON


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ({"b": 1, "a": [True, None]}, '{"a":[true,null],"b":1}'),
        (1.0, "1"),
        (-0.0, "0"),
        (1e21, "1e+21"),
        (1e-7, "1e-7"),
        (333333333.33333329, "333333333.3333333"),
        (2**53 - 1, "9007199254740991"),
        ('€$\u000f\nA\'B"\\\\"/', '"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"'),
        # By UTF-16 units the smiley (U+1F600) stands before U+FB33, by code points behind it.
        ({"\ufb33": 1, "😀": 2}, '{"😀":2,"\ufb33":1}'),
        ((1, 2), "[1,2]"),
    ],
)
def test_a_value_has_the_bytes_of_rfc_8785(value: Any, written: str) -> None:
    assert canonical_bytes(value) == ("jcs", written.encode())


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (2**53, "9007199254740992"),
        (-(2**53) - 1, "-9007199254740993"),
        ({"b": [2**60, 1.5], "a": "1152921504606846976"}, '{"a":"1152921504606846976","b":[1152921504606846976,1.5]}'),
        ([10**20, 1.2345678901234568e20], "[100000000000000000000,123456789012345683968]"),
        ([2**53, -1e20], "[9007199254740992,-100000000000000000000]"),
        ("a\ud800b", '"a\\ud800b"'),
        ("\udfff", '"\\udfff"'),
        ('\n\ud800"', '"\\n\\ud800\\""'),
        ({"\ud83d": 1, "😀": 2, "a": True}, '{"a":true,"\\ud83d":1,"😀":2}'),
        ({"\ufb33": 2**53, "😀": 2}, '{"😀":2,"\ufb33":9007199254740992}'),
        ([2**53, {}, [], (1,), None, 0.5], "[9007199254740992,{},[],[1],null,0.5]"),
    ],
)
def test_what_rfc_8785_refuses_has_exact_bytes_under_a_name_of_its_own(value: Any, written: str) -> None:
    assert canonical_bytes(value) == ("jcs+exact", written.encode())


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        [2**53, float("nan")],
        {"a": "\ud800", "b": float("-inf")},
        {1: "a"},
        {1: 2**53},
        {"a": {2}},
        [10**5000],
    ],
)
def test_invalid_json_has_no_hash(value: Any) -> None:
    with pytest.raises(NotCanonical):
        hash_value(value)


def test_a_hash_is_the_sha256_of_the_bytes() -> None:
    assert hash_value({"a": 1}) == ("jcs", hashlib.sha256(b'{"a":1}').hexdigest())
    assert hash_value({"a": 1})[1] == "015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862"


def test_a_hash_that_travels_alone_names_its_scheme() -> None:
    assert named_hash({"a": 1}) == "sha256:015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862"
    assert named_hash(2**53) == f"sha256+exact:{hashlib.sha256(b'9007199254740992').hexdigest()}"


@pytest.mark.parametrize(
    ("value", "other"),
    [
        (2**53, 2**53 + 1),
        (2**60, str(2**60)),
        ({"a": 2**60, "b": str(2**60)}, {"a": str(2**60), "b": 2**60}),
        ("\ud800", "\\ud800"),
        ("\ud800", "\ud801"),
        ([2**53, 123456789012345680000], [2**53, 1.2345678901234568e20]),
    ],
)
def test_different_values_have_different_hashes(value: Any, other: Any) -> None:
    assert hash_value(value) != hash_value(other)


@pytest.mark.parametrize(
    ("value", "other"),
    [({"a": 1, "b": 2}, {"b": 2, "a": 1}), (1, 1.0), ([2**53, 2**53], [2**53, float(2**53)])],
)
def test_equal_values_have_equal_hashes(value: Any, other: Any) -> None:
    assert hash_value(value) == hash_value(other)


@given(JSON)
def test_any_json_value_has_a_hash_that_its_text_gives_again(value: Any) -> None:
    scheme, content = canonical_bytes(value)
    assert hash_value(json.loads(json.dumps(value))) == (scheme, hashlib.sha256(content).hexdigest())
    if scheme == "jcs+exact":  # RFC 8785 rounds a large float's digits, so its text is read as another number
        assert canonical_bytes(json.loads(content)) == (scheme, content)
