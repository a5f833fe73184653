"""Remediation: from a verdict to steps that keep blame, availability and the job apart."""
