"""Makes this folder importable for every test, so that `import records` works."""
