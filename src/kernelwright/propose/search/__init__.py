"""The search that needs no model and no key.

capture (torch.export) -> ir (a hash-consed DAG of ATen calls) -> rules (algebra) -> `graph`
Candidates; and templates (row programs, middle reductions) -> `cpp` Candidates; then successive
halving on the judge's own Verdicts. No name of any Task appears here.
"""
