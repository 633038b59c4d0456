"""The grammar of filters, for trees of every shape."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dashboard.filters.language import Query, parse
from dashboard.filters.syntax import MAX_DEPTH, And, Node, Not, Or, Term, iterate_terms, parse_tree

VALUES = st.text(min_size=1, max_size=8).filter(lambda text: bool(text.strip()))
TERMS = st.one_of(
    st.builds(Term, st.just("text"), VALUES),
    st.builds(Term, st.sampled_from(["tool", "model"]), VALUES),
    st.builds(
        Term,
        st.just("model"),
        st.sampled_from(["opus*", "*", "a*b", '*"', "-*", "a:b*"]),
        st.booleans().map(lambda _: True),
    ),
    st.sampled_from([Term("text", "or"), Term("text", "a)b"), Term("tool", "x*"), Term("text", "-")]),
)


def _trees(nodes: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    several = st.lists(nodes, min_size=2, max_size=3).map(tuple)
    return st.one_of(
        st.lists(nodes, min_size=1, max_size=3).map(lambda items: And(tuple(items))),
        several.map(Or),
        nodes.filter(lambda node: not isinstance(node, Not)).map(Not),
    )


NODES: st.SearchStrategy[Node] = st.recursive(TERMS, _trees, max_leaves=8)


def depth(node: Node) -> int:
    inner = (node.node,) if isinstance(node, Not) else () if isinstance(node, Term) else node.nodes
    return isinstance(node, (And, Or)) + max(map(depth, inner), default=0)


@given(NODES.filter(lambda node: depth(node) < MAX_DEPTH))
def test_a_tree_that_is_written_parses_to_the_same_tree(node: Node) -> None:
    root = node if isinstance(node, (And, Or)) else And((node,))
    assert parse_tree(str(root)) == (root, [])


PIECES = [
    "(",
    ")",
    "-",
    "or",
    '"',
    "\\",
    "tool:",
    "Bash",
    "failed:>3",
    "*",
    " ",
    "é",
    "after:",
    "2026-01-20",
    "()",
    "a",
]


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join) | st.text(max_size=20))
def test_any_text_gives_a_tree_or_a_sentence(text: str) -> None:
    for over in ("runs", "calls"):
        query = parse(text, over=over)
        assert query.problems or parse(str(query), over=over) == query
        assert bool(query) == bool(text.strip())


def test_a_group_a_word_and_a_quotation_end_where_they_should() -> None:
    tree, problems = parse_tree('-(f(x) or tool:Bash) "or" (a)')
    group = Or((Term("text", "f(x)"), Term("tool", "Bash")))
    assert (tree, problems) == (And((Not(group), Term("text", "or"), And((Term("text", "a"),)))), [])
    assert [term.at for term in iterate_terms(tree)] == [2, 10, 21, 27]


def test_deep_groups_are_refused_and_not_followed() -> None:
    query = parse("(" * 900 + "a" + ")" * 900)
    assert query.problems == (f"“(” at character {MAX_DEPTH + 1} is nested deeper than {MAX_DEPTH} groups.",)
    assert list(Query().terms) == []
