"""Mutants that tests of their own catch, and a way to run tests without a rule."""
