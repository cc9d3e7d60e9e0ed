"""The agent, which runs on database hosts: Python >= 3.9, standard library only."""
