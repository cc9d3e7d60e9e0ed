"""Match regular expressions of users in a separate process, which is killed if an expression takes too long."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence

from common.errors import FormatError

LIMIT_S = 5.0
MOST_BYTES = 1 << 20

_PROGRAM = """
import json, re, sys
patterns, text = json.load(sys.stdin)
found = {}
for pattern in patterns:
    for match in re.finditer(pattern, text, re.MULTILINE):
        found.update({name: value for name, value in match.groupdict().items() if value is not None})
json.dump(found, sys.stdout)
"""


def last_matches(patterns: Sequence[str], raw: bytes, limit_s: float = LIMIT_S) -> dict[str, str]:
    """Return the last match of each named group in the last MiB of an output. Raises FormatError after `limit_s`."""
    text = raw[-MOST_BYTES:].decode(errors="replace")
    argv = [sys.executable, "-I", "-S", "-c", _PROGRAM]
    try:
        request = json.dumps([list(patterns), text]).encode()
        shown = subprocess.run(argv, input=request, capture_output=True, timeout=limit_s, check=True)
    except subprocess.TimeoutExpired as error:
        hint = "match the text around the figure, without nested repetitions"
        raise FormatError("command", f"the patterns did not finish within {limit_s:g} s", hint=hint) from error
    except subprocess.CalledProcessError as error:
        raise FormatError("command", "the patterns cannot be used", hint=error.stderr.decode()[-300:]) from error
    matches: dict[str, str] = json.loads(shown.stdout)
    return matches
