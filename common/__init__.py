"""What every part of the server shares: the tree of errors, and how numbers are written."""
