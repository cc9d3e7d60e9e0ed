"""The frozen evidence of a decision: conditions, replay, repetitions needed. Pure."""
