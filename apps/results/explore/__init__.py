"""Charts that a person composes, pins and saves."""
