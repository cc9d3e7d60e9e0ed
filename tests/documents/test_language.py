"""The texts that the language check reads, and its findings."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.documents import language, messages


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


def test_names_in_backticks_and_microseconds_are_no_words() -> None:
    texts = ["Choose `each` or `spread` as the placement.", "seconds, or a number with us, ms or s"]

    assert list(language._of("messages", Path("a.py"), texts)) == []
    assert len(list(language._of("messages", Path("a.py"), ["The `spread` of our host, or let us ask."]))) == 2


@pytest.mark.parametrize("text", ["The host is put back.", "Admins of the house.", "so many runs would find it"])
def test_a_replaced_word_is_found_with_what_to_write(text: str) -> None:
    findings = list(language._of("documents", Path("a.md"), [text]))

    assert findings
    assert all("write " in finding.text for finding in findings)


def test_a_sentence_of_26_words_is_too_long_and_two_short_ones_are_not() -> None:
    long = " ".join(["word"] * 26) + "."
    short = " ".join(["Word"] * 20) + ". "

    assert [each.rule for each in language._of("documents", Path("a.md"), [long])] == ["documents: long sentences"]
    assert list(language._of("documents", Path("a.md"), [short * 2])) == []


def test_messages_of_python_are_sentences_and_named_arguments() -> None:
    source = '''"""A docstring of three words."""
raise PlanError("days", f"{days} is not between 1 and 366", hint="ask for less")
SELECT = "select pid from pg_stat_activity where pid is not null"
field = Field(help_text="two words", name="two words")
'''

    assert messages.text_of_python(source) == ["X is not between 1 and 366", "ask for less", "two words"]


def test_messages_of_javascript_are_its_sentences() -> None:
    source = "// a comment of words\nsay(`${n} runs have ended`); find(\".panel > td\"); say('No match was found.');"

    assert messages.text_of_script(source) == ["X runs have ended", "No match was found."]


def test_unclear_words_are_found_in_messages_and_not_in_documents() -> None:
    text = "The host goes on."

    assert [each.rule for each in language._of("messages", Path("a.py"), [text])] == ["messages: words"]
    assert list(language._of("documents", Path("a.md"), [text])) == []
