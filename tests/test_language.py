"""What the language check reads of a text, and what it finds there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import language


def test_a_reader_of_a_template_sees_text_variables_and_confirmations() -> None:
    source = """{% if run %}<p>Run {{ run.name }} <em>ended</em>.</p>{% endif %}
        <button data-confirm="Cancel this run? Its host is restored.">Cancel</button><style>p { margin: 0 }</style>"""

    assert language.text_of_template(source) == [
        "Run X ended.",
        "Cancel",
        "Cancel this run? Its host is restored.",
    ]


def test_code_and_links_of_a_document_are_left_out() -> None:
    source = "# Title\n\nRead [this](that.md) and `put back`.\n\n    put back\n\n| a | b |\n"

    assert language.text_of_document(source) == ["Title", "Read [this] and X.", "a", "b"]


@pytest.mark.parametrize("text", ["The host is put back.", "Admins of the house.", "so many runs would find it"])
def test_a_replaced_word_is_found_with_what_to_write(text: str) -> None:
    found = list(language._of("documents", Path("a.md"), [text]))

    assert found
    assert all("write " in each.text for each in found)


def test_a_sentence_of_26_words_is_too_long_and_two_short_ones_are_not() -> None:
    long = " ".join(["word"] * 26) + "."
    short = " ".join(["Word"] * 20) + ". "

    assert [each.rule for each in language._of("documents", Path("a.md"), [long])] == ["documents: long sentences"]
    assert list(language._of("documents", Path("a.md"), [short * 2])) == []
