"""The command line of Proving Ground: all that it knows of the server is its REST API."""
