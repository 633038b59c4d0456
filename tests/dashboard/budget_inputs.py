"""Values for the parameters of an address by their kind: the worst that are known, odd ones, and strategies."""

from __future__ import annotations

from urllib.parse import urlencode

from hypothesis import strategies as st

COUNTS = "((((((((((a{9}){9}){9}){9}){9}){9}){9}){9}){9}){9})"
LOOP = "{% for i in (1..1000) %}"
SEEDS: dict[str, tuple[str, ...]] = {
    "pattern": ("(a|a)+[bc]", "(?:(?:a|b)?){900}z", "(a.{0,500}){2}z", r"(?i)(?:\pL?\pN?){20}z", COUNTS, "A", "a*?"),
    "template": (
        LOOP * 3 + "{% endfor %}" * 3,
        "{% assign a = 'xxxxxxxxxx' %}" + LOOP + "{% assign a = a | append: a %}{% endfor %}",
        "{% if " + "a and " * 9_000 + "a %}{% endif %}",
        "{{ result" + " | json" * 4_000 + " }}",
    ),
    "filter": ("a " * 900, '"' * 1_999, "-status:failed " * 100, "%_" * 900),
    "list": (f"calls?q=receipt:*x*+{'-cut:no+' * 18}&sort=took", "search?q=" + "a+" * 900),
    "number": ("9" * 19, "999999"),
    "range": ("1-" + "9" * 18, "0x" + "f" * 15, "23:59:59", "99%"),
    "cursor": ("9" * 18 + "-" + "9" * 18, "700~" + "0" * 32, "0.999"),
    "choice": ("slow", "variant-slow"),
    "json": ("[" * 90_000, '{"summary_text": ' + "[" * 2_000 + "]" * 2_000 + "}"),
}
ODD = ("", "-1", "9" * 400, "\0\ud800'\"<b>%", "x" * 600)

patterns = st.recursive(
    st.sampled_from(["a", "b", ".", r"\w", r"\pL", "[^a]", "[ab]", r"\b", "^", "$", "é"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("(?:{0[0]}|{0[1]})".format),
        st.tuples(inner, st.sampled_from(["*", "+?", "?", "{9}", "{0,30}", "{1,9}", "{200}"])).map(
            "({0[0]}){0[1]}".format
        ),
    ),
    max_leaves=12,
)
blocks = st.recursive(
    st.sampled_from(["{{ result | json }}", "x", "{% assign a = a | append: result.stdout_preview %}{{ a }}"]),
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=4).map("".join),
        st.tuples(st.integers(1, 10**6), inner).map("{{% for i in (1..{0[0]}) %}}{0[1]}{{% endfor %}}".format),
    ),
    max_leaves=8,
)
words = st.sampled_from(
    ["a", "%", '"a b"', "status:failed", "-tool:Bash", "child:any", "state:cut", "context:uncertain"]
)
documents = st.recursive(
    st.sampled_from(["1", '"a"', "null", "1e300", '"\\ud800"']),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda items: f"[{','.join(items)}]"),
        st.tuples(st.sampled_from(["result", "error", "summary_text", "x"]), inner).map('{{"{0[0]}":{0[1]}}}'.format),
        st.tuples(st.integers(1, 20_000), inner).map(lambda pair: f"[{','.join([pair[1]] * pair[0])}]"[:900_000]),
        st.tuples(st.integers(1, 300), inner).map(lambda pair: "[" * pair[0] + pair[1] + "]" * pair[0]),
    ),
    max_leaves=8,
)
numbers = st.one_of(st.integers(-2, 10**20).map(str), st.sampled_from(ODD))
STRATEGIES: dict[str, st.SearchStrategy[str]] = {
    "pattern": patterns,
    "template": blocks,
    "filter": st.lists(words, max_size=25).map(" ".join),
    "list": st.lists(words, max_size=20).map(
        lambda terms: f"calls?{urlencode({'q': ' '.join(terms), 'sort': 'took'})}"
    ),
    "number": numbers,
    "range": st.one_of(
        numbers,
        st.tuples(numbers, numbers).map("-".join),
        st.from_regex(r"[0-9]{1,4}(%|:[0-9]{2})", fullmatch=True),
        st.dates().map(str),
    ),
    "choice": st.sampled_from(ODD),  # and what the links and forms of the pages offer
    "cursor": st.tuples(st.lists(numbers, max_size=4), st.sampled_from("-.~")).map(lambda pair: pair[1].join(pair[0])),
    "json": documents,
    "word": st.one_of(st.text(max_size=50), st.sampled_from((*ODD, "slow", "variant-slow", "receipt", "recorded"))),
    "id": st.one_of(st.uuids().map(str), st.sampled_from(ODD)),
    "flag": st.sampled_from(["", "0", "1", *ODD]),
}
