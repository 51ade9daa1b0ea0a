"""Who is calling: API keys, tokens of an identity provider, and what each caller may do."""
