"""The block tags that fill in what a page repeats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from django.template import Context, Engine, TemplateSyntaxError

ENGINE = Engine(
    builtins=["django.template.defaulttags", "dashboard.templatetags.markup", "dashboard.templatetags.pieces"]
)
HOSTILE = """<script>alert("1")</script> & 'x' 100% %s \x00 {{ row.name }}"""


@dataclass
class Line:
    name: Any
    number: int = 1
    note: str = ""
    drawn: Any = ""
    lines: tuple[Line, ...] = ()


def written(source: str, **context: Any) -> str:
    return str(ENGINE.from_string(source).render(Context(context)))


@pytest.mark.parametrize(
    "body",
    [
        "<b>{{ row.name }}</b>",
        "100% <i title='{{ row.name }}'>{{ row.number }}</i>",
        "{{ row.number|count }}{% if row.note %} <em>{{ row.note }}</em>{% endif %};",
        "{{ row.name|visible }} {% if row.drawn %}%s{% endif %}",
        "nothing of it ",
    ],
)
@pytest.mark.parametrize("name", ["plain", HOSTILE])
def test_each_writes_what_for_writes(body: str, name: str) -> None:
    rows = [Line(name, 1_234), Line("b", note=name), Line(name + name, drawn="yes"), Line("d", note="<")]
    each = written("{% each row in rows %}" + body + "{% endeach %}", rows=rows)
    assert each == written("{% for row in rows %}" + body + "{% endfor %}", rows=rows)


def test_rows_have_rows_of_their_own() -> None:
    source = "{% each a in rows %}{{ a.name }}({% each b in a.lines %}{{ b.name }},{% endeach %}) {% endeach %}"
    rows = [Line("x", lines=(Line("<1>"), Line("2"))), Line("y"), Line("z", lines=(Line("3"),))]
    assert written(source, rows=rows) == "x(&lt;1&gt;,2,) y() z(3,) "
    assert written(source, rows=()) == ""


def test_a_field_that_is_missing_is_no_empty_cell() -> None:
    with pytest.raises(AttributeError, match="nmae"):
        written("{% each r in rows %}{{ r.nmae }}{% endeach %}", rows=[Line("a")])


@pytest.mark.parametrize(
    "body",
    [
        "{{ other }}",
        "{{ r.name|default:'x' }}",
        "{% if r.name %}a{% else %}b{% endif %}",
        "{% if r.name and r.note %}a{% endif %}",
        "{% for x in r.lines %}{% endfor %}",
    ],
)
def test_what_each_cannot_fill_in_is_refused_when_the_template_is_read(body: str) -> None:
    with pytest.raises(TemplateSyntaxError, match="each"):
        ENGINE.from_string("{% each r in rows %}" + body + "{% endeach %}")


def test_what_is_written_once_holds_nothing_of_who_came_first() -> None:
    template = ENGINE.from_string("{% once %}[{{ name }}{% icon 'search' %}]{% endonce %}{{ name }}")
    first, second = (template.render(Context({"name": name})) for name in ("Olga", "Boris"))
    assert first.startswith("[<svg")
    assert first.endswith("]Olga")
    assert second == first.replace("Olga", "Boris")
