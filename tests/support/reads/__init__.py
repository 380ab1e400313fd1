"""Answers of a whole simulated overlay, once or standing, against published results and another engine."""
