"""Campaigns that repeat: when they are due, what becomes of each time, and what a user does with them."""
