"""Charts that users compose, and saved views."""
