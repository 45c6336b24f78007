"""A run on disk: its directory, its checkpoints, how it is resumed, who is told of its rounds."""
