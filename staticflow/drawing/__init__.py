"""Graphs and tapes as text, pictures and pages."""
