"""Looks into a store with a client of others: client.py STORE ENDPOINT, then one command per line of standard input.

STORE is `s3`, `az`, or `gs`, which is spoken to as S3 here. Commands: `bucket`, `put KEY FILE`, `get KEY FILE`, `delete KEY`, `list`, `uploads`.
"""

import os
import sys

BUCKET = "bucket"


class S3:
    def __init__(self, endpoint):
        import boto3

        self.client = boto3.client("s3", endpoint_url=endpoint)

    def bucket(self):
        self.client.create_bucket(Bucket=BUCKET)

    def put(self, key, file):
        with open(file, "rb") as body:
            self.client.put_object(Bucket=BUCKET, Key=key, Body=body.read())

    def get(self, key, file):
        with open(file, "wb") as out:
            out.write(self.client.get_object(Bucket=BUCKET, Key=key)["Body"].read())

    def delete(self, key):
        self.client.delete_object(Bucket=BUCKET, Key=key)

    def list(self):
        for page in self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET):
            for found in page.get("Contents", []):
                print(found["Key"])

    def uploads(self):
        for found in self.client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", []):
            print(found["Key"])


class Azure:
    # The account of the emulator, which everybody knows.
    KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

    def __init__(self, endpoint):
        from azure.storage.blob import ContainerClient

        url = f"{endpoint}/devstoreaccount1/{BUCKET}"
        self.client = ContainerClient.from_container_url(url, credential=self.KEY)

    def bucket(self):
        self.client.create_container()

    def put(self, key, file):
        with open(file, "rb") as body:
            self.client.upload_blob(key, body, overwrite=True)

    def get(self, key, file):
        with open(file, "wb") as out:
            out.write(self.client.download_blob(key).readall())

    def delete(self, key):
        self.client.delete_blob(key)

    def list(self):
        for found in self.client.list_blobs():
            print(found.name)


store = {"s3": S3, "gs": S3, "az": Azure}[sys.argv[1]](sys.argv[2])
for line in sys.stdin:
    command, *arguments = line.split()
    getattr(store, command)(*arguments)

