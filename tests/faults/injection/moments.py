"""The moments at which a dispatcher can be killed, and the environment variables that trap.py reads."""

from __future__ import annotations

MOMENTS = ("before submit", "after submit", "before ack")
ARMED = "PROVING_FAULTS_ARMED"
SHORT = "PROVING_FAULTS_SHORT"  # what is waited for takes seconds
SHORT_CLAIM_S, SHORT_VISIBILITY_S = 4.0, 3
