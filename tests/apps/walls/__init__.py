"""Private teams: what others can find out about them."""
