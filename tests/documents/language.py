"""python -m tests.documents.language: long sentences in texts for users, and words that the glossary replaces.

The glossary is docs/reference/glossary.md. The texts are those of templates, documents, and the messages in Python and
JavaScript sources (tests/documents/messages.py).

Part of make lint. It fails when there are more than LIMITS allows; lower a limit with each correction, never raise it.
`--list` prints every finding with its file.
"""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.documents.messages import text_of_python, text_of_script

CHECKOUT = Path(__file__).resolve().parents[2]
LONGEST = 25  # words of a sentence
LIMITS = {
    "templates: words": 0,
    "templates: long sentences": 0,
    "documents: words": 0,
    "documents: long sentences": 2,
    "messages: words": 0,
    "messages: long sentences": 0,
}
# What not to write: what to write instead.
REPLACED = {
    r"\bhouse\b": "instance",
    r"\bmend(s|ed|ing)?\b": "fix, resolve",
    r"\bonlookers?\b": "collector",
    r"\b(put|puts|putting|give|gives|given|gave|hand|handed) back\b": "restore",
    r"\b(is|are|was|were) told\b": "is shown, is reported",
    r"\b(be|is|are|was|were) had\b": "is available, is in effect",
    r"\b(held|had)\b(?= (by|in effect))": "in effect",
    r"\bso (many|few)\b": "a number, or leave it out",
    r"\bas many as\b": "a number",
    r"\bdelta\b": "minimum effect",
    r"\b[Ww]ho is no\b": "users without",
    r"\bnobody (knows|has)\b": "name the thing that is missing",
    r"\bwould (find|tell)\b": "minimum detectable effect, runs needed",
    r"\bwholly\b": "entirely, or leave it out",
    r"\bstands? (beside|twice|behind)\b": "is next to, is repeated",
    r"\bof ours\b": "of Proving Ground",
    r"\bwhat was seen\b": "sample, time series",
    r"\bspread\b(?! over)": "run-to-run variation",
}
# The same in templates and messages, where a sentence has no context that explains it.
UNCLEAR = {
    r"(?<!there )\b(is|are) (no|none)\b(?! longer)": "is not a, has no",
    r"\b(told|tells?|saw|says?|said)\b(?! apart)": "reports, shows, contains",
    r"\bnames nothing\b": "does not exist",
    r"\b(look|looks|looked|look) (again|at)\b": "review, read, check",
    r"\b(no|some)body\b": "no user, another user",
    r"\banew\b|\bagain and again\b": "again, repeatedly",
    r"\bshall\b": "must, will",
    r"\bany ?more\b": "no longer",
    r"\b(go|goes|gone|went) on\b": "continue",
    r"\b(end|ends|ended) well\b": "succeed",
    r"\b(not|is|are|was|were) (to be had|there any more)\b": "is available",
    r"\bof it all\b|\bof all (of it|that|this)\b": "name the thing",
    r"\bas (it|they) (is|was|are|were)\b": "unchanged",
    r"\b(we|our|ours|(ask|for|help|let|show|tell) us)\b(?!\))": "the server, the agent",  # a column may be in us
    r"\bpeople\b": "users",
    r"\bas told\b": "documented",
    r"\b(under way|on its way)\b": "running, in progress",
}
_REPLACED = {re.compile(pattern, re.IGNORECASE): instead for pattern, instead in REPLACED.items()}
_UNCLEAR = {re.compile(pattern, re.IGNORECASE): instead for pattern, instead in UNCLEAR.items()}
# Folders and files with messages.
SOURCES = ("apps", "agents", "stats", "readers", "cli", "embedded", "common", "static")
NAMES = re.compile(r"`[^`\n]*`|\"\w+\"")  # of fields and values
_SENTENCE_END = re.compile(r"(?<=[.!?:;])\s+(?=[A-Z`*])|\n{2,}")
_WORD = re.compile(r"[\w'/.-]+")


@dataclass(frozen=True)
class Finding:
    rule: str
    file: Path
    text: str

    def __str__(self) -> str:
        return f"{self.file.relative_to(CHECKOUT)}: {self.rule}: {self.text}"


def findings() -> list[Finding]:
    """In templates, README, CONTRIBUTING, SECURITY and docs, and in messages of SOURCES."""
    templates = sorted((CHECKOUT / "templates").rglob("*.html"))
    documents = [*sorted(CHECKOUT.glob("*.md")), *sorted((CHECKOUT / "docs").rglob("*.md"))]
    listed = [each for file in templates for each in _of("templates", file, text_of_template(file.read_text()))]
    listed += [each for file in documents for each in _of("documents", file, text_of_document(file.read_text()))]
    for folder in SOURCES:
        for file in sorted((CHECKOUT / folder).rglob("*.py")):
            if "migrations" not in file.parts:
                listed += _of("messages", file, text_of_python(file.read_text()))
        for file in sorted((CHECKOUT / folder).rglob("*.js")):
            listed += _of("messages", file, text_of_script(file.read_text()))
    return listed


def _of(kind: str, file: Path, texts: list[str]) -> Iterator[Finding]:
    for text in (NAMES.sub("X", text) for text in texts):
        for pattern, instead in (_REPLACED if kind == "documents" else _REPLACED | _UNCLEAR).items():
            for match in pattern.finditer(text):
                near = text[max(0, match.start() - 30) : match.end() + 30]
                yield Finding(f"{kind}: words", file, f'"{match[0]}" in "...{near}...": write {instead}')
        for sentence in _SENTENCE_END.split(text):
            length = len(_WORD.findall(sentence))
            if length > LONGEST:
                yield Finding(f"{kind}: long sentences", file, f"{length} words: {sentence[:160]}")


def text_of_template(source: str) -> list[str]:
    """What a reader sees: the text between tags and that of some attributes; a variable counts as one word."""
    source = re.sub(
        r"\{#.*?#\}|\{% comment %\}.*?\{% endcomment %\}|<(script|style).*?</(script|style)>",
        " ",
        source,
        flags=re.DOTALL,
    )
    source = re.sub(r"\{\{.*?\}\}", " X ", source)
    source = re.sub(r"\{%-? *(if|for|endfor|endif)\b.*?%\}", " ", source)
    source = re.sub(r"\{%.*?%\}", "\n\n", source)
    attributes = re.findall(r'(?:title|placeholder|data-confirm|aria-label)="([^"]{20,})"', source)
    source = re.sub(r"</?(?:a|abbr|b|code|em|i|kbd|span|strong|time|small|var)\b[^>]*>", "", source)
    blocks = re.sub(r"<[^>]*>", "\n\n", source).split("\n\n")
    return [" ".join(html.unescape(text).split()) for text in [*blocks, *attributes] if text.strip()]


def text_of_document(source: str) -> list[str]:
    """The paragraphs, items and table cells of a Markdown text, without code."""
    source = re.sub(r"^```.*?^```", "", source, flags=re.DOTALL | re.MULTILINE)
    source = re.sub(r"^(?: {4}|\t).*$", "", source, flags=re.MULTILINE)
    source = re.sub(r"`[^`\n]*`", "X", source)
    source = re.sub(r"\]\([^)]*\)", "]", source)
    source = re.sub(r"^\s*(?:[-*]|\d+\.) ", "\n\n", source, flags=re.MULTILINE)
    source = re.sub(r"^#+ (.*)$", r"\n\n\1\n\n", source, flags=re.MULTILINE)
    source = re.sub(r"^\|.*$", lambda row: row[0].replace("|", "\n\n"), source, flags=re.MULTILINE)
    return [" ".join(text.split()) for text in source.split("\n\n") if text.strip()]


def main(arguments: list[str]) -> int:
    listed = findings()
    if "--list" in arguments:
        sys.stdout.writelines(f"{each}\n" for each in listed)
    code = 0
    for rule, limit in LIMITS.items():
        count = sum(each.rule == rule for each in listed)
        sys.stdout.write(f"{rule}: {count}, at most {limit}\n")
        code |= count > limit
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
