"""Code that fusers share: the arithmetic of fusion, and trained fusion models at search time."""
