"""The many readers: a generation opened, a pipeline run over it, hits made of what it found."""
