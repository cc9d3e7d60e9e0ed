"""The command line of Proving Ground. It only uses the REST API of the server."""
