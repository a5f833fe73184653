"""Diagnosis: detectors make claims, mechanisms explain them away, what is left is an incident with its reasons."""
