"""What a release and an installation are made of."""
