"""The structure of text, for whoever needs it: blocks and sections of Markdown, sentences, tokens."""
