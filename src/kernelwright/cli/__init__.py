"""The command line: one thin file per verb, which puts proposers and judge together.

Exit status: 0 done, 1 no win found, 2 the user's error, 3 inconclusive, 130 interrupted.
"""
