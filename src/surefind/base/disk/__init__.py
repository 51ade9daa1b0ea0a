"""What every part keeps on disk: where it is, and how damage shows."""
