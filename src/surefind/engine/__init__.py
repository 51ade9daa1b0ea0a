"""Files become documents, passages and indexes; a question becomes a ranking of passages."""
