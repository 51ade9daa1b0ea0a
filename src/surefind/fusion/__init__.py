"""What fusers share: the arithmetic of fusion, and trained fusion models as they are used."""
