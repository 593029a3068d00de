"""Where Tasks come from.

In: a name, a file or a class. Out: a `core.Task`, its live `Reference`, the `Signature` of what a
call reads and writes, and fresh `draw`s of every slot. Workers import `reference`, `slots` and
`bind`, so those need neither pydantic nor anything above this room.
"""
