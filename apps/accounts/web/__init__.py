"""Shared by all pages and endpoints: roles, errors, paging, limits, conditional and repeated requests."""
