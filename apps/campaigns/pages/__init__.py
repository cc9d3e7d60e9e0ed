"""Pages and forms of campaigns."""
