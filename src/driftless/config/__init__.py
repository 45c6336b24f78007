"""Settings: the sections, where each value came from, and the objects they describe."""
