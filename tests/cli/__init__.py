"""Tests of `proving`. Its distribution in cli/ is not installed: modules of this package add its folder to the path."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "cli"))
