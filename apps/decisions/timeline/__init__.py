"""The team's timeline, its filter and its Atom feed."""
