"""Hostile hosts: programs that answer over real SSH in place of Python and the agent.

greetings.py   lies before and around an answer: floods, half frames, endless output
lies.py        lies in an answer: the table of what is said to each verb and event, and how it ends
agent.py       the program that tells the lies of the table, honest but for one
__main__.py    python -m tests.hostile: three hosts flood while five honest ones run campaigns
"""
