"""The services around the server: addresses that it may connect to, secrets, its broker, and errors of all of them."""
