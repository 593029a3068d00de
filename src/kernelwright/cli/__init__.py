"""The command line: one thin file per verb, which puts proposers and judge together.

In: what a person or a program typed. Out: text for people, or with `--json` one object last on
stdout. Exit status: 0 done, 1 no win found, 2 the user's error, 3 inconclusive, 70 a bug of ours,
130 interrupted.
"""
