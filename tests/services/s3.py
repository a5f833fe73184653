"""An S3-compatible store on a free local port that puts objects conditionally: moto, in a process of its own."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sickbay.archive_place import Place, place
from tests.services.process import Child, answers, free_port, retried, started

START_S = 60.0
BUCKET = "archive"
ACCESS = {"AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": "none of a cloud", "AWS_EC2_METADATA_DISABLED": "true"}


@contextmanager
def running(folder: Path, environment: pytest.MonkeyPatch) -> Iterator[Place]:
    """A place in a new bucket; how it is asked stands in the environment, as it would in service."""
    address = ""
    folder.mkdir(parents=True, exist_ok=True)

    def start() -> Child:
        nonlocal address
        port = free_port()
        address = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        return started(Child(command, folder, folder / "s3.log"), lambda: answers(f"{address}/moto-api/"), START_S)

    child = retried(start)
    try:
        for name, value in ACCESS.items():
            environment.setenv(name, value)
        _bucket(address)
        yield place(f"s3://{BUCKET}/site", endpoint=address)
    finally:
        child.stop()


def _bucket(address: str) -> None:
    import boto3

    boto3.client("s3", endpoint_url=address, region_name="us-east-1").create_bucket(Bucket=BUCKET)
