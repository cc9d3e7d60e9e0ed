"""What the frozen evidence of a decision shows: conditions, replay, repetitions needed. Pure."""
