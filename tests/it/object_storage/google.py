"""Google's way of speaking to a store, in front of moto: google.py PORT.

No emulator that can be installed speaks Google's XML interface with its conditions (`x-goog-if-generation-match`), which is
what clients in Rust use. It differs from S3's in what is done here, by Google's documentation: objects have generations
instead of conditional tags, a write may ask for one (0: there is none yet), and what is not there cannot be removed.
"""

import sys
import threading
import time

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

ERROR = "<?xml version='1.0' encoding='UTF-8'?><Error><Code>{0}</Code><Message>{0}</Message></Error>"

# moto checks no signature, but wants to see one, and finds out from it that this is S3.
AUTHORIZED = "AWS4-HMAC-SHA256 Credential=KEY/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"


class Generations:
    def __init__(self, store):
        self.store = store
        self.lock = threading.Lock()
        self.of = {}

    def __call__(self, environ, respond):
        method, key = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        if not environ.get("HTTP_AUTHORIZATION", "").startswith("AWS"):
            environ["HTTP_AUTHORIZATION"] = AUTHORIZED
        if "/" not in key.strip("/"):
            return self.store(environ, respond)
        wanted = environ.pop("HTTP_X_GOOG_IF_GENERATION_MATCH", None)
        with self.lock:
            if wanted is not None and wanted != str(self.of.get(key, 0)):
                return self.refuse(respond, "412 Precondition Failed", "PreconditionFailed")
            if method == "DELETE" and key not in self.of:
                return self.refuse(respond, "404 Not Found", "NoSuchKey")

            def answer(status, headers, error=None):
                if status.startswith("2"):
                    if method == "PUT":
                        self.of[key] = time.time_ns() // 1000
                    elif method == "DELETE":
                        del self.of[key]
                    if key in self.of:
                        headers = [*headers, ("x-goog-generation", str(self.of[key]))]
                return respond(status, headers, error)

            return list(self.store(environ, answer))

    def refuse(self, respond, status, code):
        body = ERROR.format(code).encode()
        respond(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
        return [body]


store = DomainDispatcherApplication(create_backend_app)
run_simple("127.0.0.1", int(sys.argv[1]), Generations(store), threaded=True)
