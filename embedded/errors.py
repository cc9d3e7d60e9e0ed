"""What can go wrong while the stack is started or stopped."""

from __future__ import annotations


class StackError(Exception):
    """Says what did not start, what was seen, and what to do next."""


class UnansweredError(StackError):
    """The server did not answer at all: it may be starting again."""
