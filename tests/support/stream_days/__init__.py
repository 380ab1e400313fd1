"""Days on which peers fail while streams are published and read through windows, against another engine's answers."""
