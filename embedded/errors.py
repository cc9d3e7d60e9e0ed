"""Errors while the stack starts or stops."""

from __future__ import annotations


class StackError(Exception):
    """What did not start, the observed cause, and what to do."""


class UnansweredError(StackError):
    """The server did not answer. It may be restarting."""
