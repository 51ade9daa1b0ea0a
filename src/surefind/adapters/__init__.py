"""Retrievers for other frameworks: LangChain, LlamaIndex and Haystack."""
