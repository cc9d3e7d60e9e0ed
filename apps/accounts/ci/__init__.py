"""CI jobs: a job exchanges the ID token of its platform for a short-lived API token, so no secret is stored there."""
