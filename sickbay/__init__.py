"""Sickbay finds the failing part of a training cluster and leaves the healthy ones alone. This package is the kernel."""

__version__ = "0.1.0"
