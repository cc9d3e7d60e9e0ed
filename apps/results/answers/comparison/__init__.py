"""Sets of runs side by side: figures, what was set, and what else differed."""
