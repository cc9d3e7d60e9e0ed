"""What runs on the database host: Python >= 3.9, standard library only."""
