"""How sure a ranking is: the measures, a predictor made of them, and thresholds that were calibrated on an exam."""
