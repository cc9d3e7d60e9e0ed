"""The documents as a site of static pages: `make docs`, or python -m tests.site.

Sphinx reads a folder in which every page lies where it lies in the checkout, so that one link is right in both. What is
made from the code is written into that folder only, and never committed.
"""
