"""What is new while a run goes on."""
