"""The replicas of a key: anti-entropy, bootstrap streaming, staging and redelivery."""
