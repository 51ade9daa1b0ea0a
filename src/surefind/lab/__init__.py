"""Questions, runs and verdicts: exams, measures, benchmarks, tuning, calibration, training and studies."""
