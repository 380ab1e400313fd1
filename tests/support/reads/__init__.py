"""What a whole simulated overlay answers, asked once or for good, against published results and another engine."""
