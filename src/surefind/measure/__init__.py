"""Measures: rankings and judgments -> a number per query; and the statistics over those numbers."""
