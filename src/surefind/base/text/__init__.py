"""The structure of text: scripts, blocks and sections of Markdown, sentences, tokens, folding of letters."""
