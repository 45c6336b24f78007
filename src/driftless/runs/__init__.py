"""A run on disk: its directory, its checkpoints, how it is resumed, callbacks, and several runs at once."""
