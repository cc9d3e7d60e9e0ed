"""Accepted names, paths and labels of hosts."""

from __future__ import annotations

from django.core.validators import RegexValidator

# Not the words that our URLs use in the place of a name.
NAME = RegexValidator(
    r"^(?!(add|keys|new)$)[a-z0-9][a-z0-9._-]{0,62}$",
    "use 1 to 63 of a-z, 0-9, dot, dash and underscore, but not add, keys or new",
)
PATH = RegexValidator(r"^/[A-Za-z0-9._/-]+$", "use an absolute path of letters, digits, dot, dash, underscore and /")
# Paths that fio takes literally: no colon, which separates files, and nothing that it expands.
STORAGE = RegexValidator(r"^/[^\x00-\x20:$`\\;#\"'*?]*$", "use an absolute path without spaces, colons and quotes")
LABEL = RegexValidator(r"^[a-z0-9][a-z0-9._=/-]{0,62}$", "use 1 to 63 of a-z, 0-9, dot, dash, underscore, = and /")
ACCOUNT = RegexValidator(r"^[a-z_][a-z0-9_-]{0,31}\$?$", "use a Linux account name")
