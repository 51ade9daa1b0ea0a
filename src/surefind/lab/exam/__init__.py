"""Exams: questions with judgments, written from the user's own documents or imported."""
