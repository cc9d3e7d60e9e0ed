"""Kinds of the corpus that no reader knows yet. Whoever writes a reader takes its line out; the last one the file."""

NOT_YET = frozenset(
    {
        #
        #
        #
    }
)
