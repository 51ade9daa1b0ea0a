"""The benchmark: a plan of pipelines sits an exam; shared work runs once; the report says who won and how surely."""
