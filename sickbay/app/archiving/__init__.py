"""The archive stage: `archiver`, and `archive_frames`: what it takes of frames."""
