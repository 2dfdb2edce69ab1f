"""The guard: a small deterministic component between an agent and its tools. It imports no Django."""
