"""The kernel of Sickbay, which finds the failing part of a training cluster and leaves the healthy ones alone."""

__version__ = "0.1.0"
