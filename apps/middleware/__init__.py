"""What happens to every request and response, before and after the apps."""
