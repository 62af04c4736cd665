"""The steps from PTX to a report and rewritten PTX, kernel by kernel."""
