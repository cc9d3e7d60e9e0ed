"""Definition lists of pages: pairs of a name and a value, drawn by one component."""

from __future__ import annotations

import pytest
from django.template.loader import render_to_string

from apps.web.pairs import BREAK, Pair, Part, code, joined, link, muted, pair


def drawn(*pairs: Pair) -> str:
    return render_to_string("components/pairs.html", {"pairs": pairs}).strip()


@pytest.mark.parametrize(
    ("part", "html"),
    [
        ("4 cpus", "4 cpus"),
        (0, "0"),
        (code("/srv/pg"), "<code>/srv/pg</code>"),
        (muted("read only"), ' <span class="muted">read only</span>'),
        (Part("psql 17", "nowrap"), '<span class="nowrap">psql 17</span>'),
        (Part("off", "strong"), "<strong>off</strong>"),
        (Part("C6", "struck"), "<s>C6</s>"),
        (BREAK, "<br>"),
        (link("accounts r2", "dataset_detail", "accounts", r=2), '<a href="/datasets/accounts/?r=2">accounts r2</a>'),
    ],
)
def test_a_part_has_the_markup_of_its_look(part: object, html: str) -> None:
    assert drawn(pair("Name", part)) == f"<dt>Name</dt><dd>{html}</dd>"


@pytest.mark.parametrize("look", ["", "code", "strong", "muted", "nowrap", "struck"])
def test_text_never_becomes_markup(look: str) -> None:
    html = drawn(pair("<b>", Part('"><script>', look), Part("<i>", href='/"onclick="'), items=["<u>"]))

    assert not any(markup in html for markup in ("<b>", "<script>", "<i>", "<u>", '"onclick'))
    assert "&quot;&gt;&lt;script&gt;" in html


def test_a_pair_without_parts_can_have_items_or_a_template() -> None:
    assert "<li>1 cpu</li><li>2 GiB</li>" in drawn(pair("Limits", items=["1 cpu", "2 GiB"]))
    assert 'class="state' in drawn(pair("State", template="components/state.html"))


def test_an_empty_string_is_left_out_but_zero_is_shown() -> None:
    assert pair("Free", "", 0, "").parts == (Part(0),)


def test_values_are_joined_and_none_is_said_to_be_none() -> None:
    roles = ((f"{role}: ", code(name)) for role, name in (("server", "a"), ("load", "b")))

    assert list(joined(BREAK, roles)) == ["server: ", code("a"), BREAK, "load: ", code("b")]
    assert list(joined(", ", [], none="none")) == ["none"]
