"""C++ templates, filled from the IR: row programs and reductions over a middle dimension."""
