"""The search on surrogates whose best values are known: which sampler, which rule, and how often it is wrong."""
