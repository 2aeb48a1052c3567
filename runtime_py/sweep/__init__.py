"""Many exports and measurements from one specification: resumable, and no failure stops the rest."""
