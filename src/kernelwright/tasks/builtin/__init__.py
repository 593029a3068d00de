"""References of our own, in KernelBench's format plus a DOMAIN of named sizes."""
