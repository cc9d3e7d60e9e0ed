"""A run from the plan to the seal, and the questions about plans that are answered without a run."""
