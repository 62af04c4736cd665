"""The steps from a text to a report and a rewritten text, kernel by kernel."""
