"""The five families of known-item questions. One family a file, each a function Corpus -> candidates."""
