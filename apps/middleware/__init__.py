"""Middleware for every request and response."""
