"""Hostile hosts: programs that answer over real SSH in place of Python and the agent.

greetings.py   lies before and around an answer: floods, half frames, endless output
lies.py        lies in an answer: the table of false values for each verb and event, and their outcomes
memory.py      the peak of memory of one piece of work
agent.py       the program with one lie of the table
__main__.py    python -m tests.hostile: three hosts flood while five honest ones run campaigns
"""
