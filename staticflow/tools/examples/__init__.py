"""Models that the package brings along, written as a user writes them: their lines are shown."""
