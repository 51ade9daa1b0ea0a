"""A knowledge base: the interface that every door uses."""

from surefind.kb.knowledge_base import KnowledgeBase

__all__ = ["KnowledgeBase"]
