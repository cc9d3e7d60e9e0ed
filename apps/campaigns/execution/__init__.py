"""From a queued run to an ended one: claim, submit, follow, fetch, close."""
