"""Measures: rankings and judgments -> a number per query; and statistics over these numbers."""
