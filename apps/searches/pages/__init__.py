"""Pages, forms and charts of searches."""
