"""Address parameters: what fits is read, what does not is reported and replaced by the default."""

from __future__ import annotations

from uuid import UUID

import pytest

from dashboard.text.params import Params, parse_integer

ID = UUID("11111111-aaaa-4aaa-8aaa-111111111111")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *(("0", 0), ("7", 7), ("007", 7), ("9223372036854775807", 2**63 - 1)),
        *((text, None) for text in (None, "", " 7", "-1", "+1", "1_000", "1.5", "²", "٣", "x", "9223372036854775808")),
        ("9" * 5_000, None),
    ],
)
def test_only_a_decimal_number_is_an_integer(text: str | None, number: int | None) -> None:
    assert parse_integer(text) == number


def test_an_integer_outside_its_bounds_is_none() -> None:
    assert parse_integer("5", most=4) is None
    assert parse_integer("5", least=6) is None


def test_what_fits_is_read_and_nothing_is_reported() -> None:
    params = Params({"n": "12", "order": "tokens", "all": "1", "after": "3-40", "q": "  x y ", "run": str(ID)})
    assert params.integer("n", default=1) == 12
    assert params.choice("order", ("newest", "tokens"), default="newest") == "tokens"
    assert params.flag("all")
    assert params.cursor("after", 2) == (3, 40)
    assert params.text("q") == "x y"
    assert params.uuid("run") == ID
    assert params.problems == []


def test_what_does_not_fit_is_replaced_by_the_default_and_reported() -> None:
    params = Params({"n": "many", "order": "age", "after": "3", "run": "5\u202e"})
    assert params.integer("n", default=None, least=1, most=1_000) is None
    assert params.choice("order", ("newest", "tokens"), default="newest") == "newest"
    assert params.cursor("after", 2) is None
    assert params.uuid("run") is None
    assert params.problems == [
        "n=many is not a whole number from 1 to 1,000",
        "order=age is not one of newest, tokens",
        "after=3 is not a cursor of 2 numbers",
        "run=5⟨RLO⟩ is not an id",
    ]


def test_an_absent_parameter_is_no_problem() -> None:
    params = Params({})
    assert (params.integer("n", default=4), params.flag("all"), params.cursor("after", 1)) == (4, False, None)
    assert (params.text("q", default="x"), params.uuid("run"), params.problems) == ("x", None, [])


def test_the_url_holds_what_was_read_without_defaults() -> None:
    params = Params({"n": "12", "order": "newest", "junk": "1"}, path="/runs/")
    params.integer("n", default=1)
    params.choice("order", ("newest", "tokens"), default="newest")
    assert params.url() == "/runs/?n=12"
    assert params.url(order="tokens") == "/runs/?n=12&order=tokens"
    assert params.url(n=1) == "/runs/?"
    assert params.url(n=None, page=2) == "/runs/?page=2"
