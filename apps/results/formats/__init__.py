"""Readers of what tools print: bytes in, frozen dataclasses with units in their field names out, or FormatError."""
