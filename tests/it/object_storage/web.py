"""A web server over TLS with ranges and ETags: web.py DIRECTORY CERTIFICATE KEY; prints its port."""

import hashlib
import http.server
import os
import ssl
import sys

directory, certificate, key = sys.argv[1:]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_HEAD(self):
        self.answer(False)

    def do_GET(self):
        self.answer(True)

    def answer(self, with_body):
        path = os.path.join(directory, self.path.lstrip("/"))
        if not os.path.isfile(path):
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        with open(path, "rb") as file:
            body = file.read()
        tag, total = f'"{hashlib.md5(body).hexdigest()}"', len(body)
        wanted = self.headers.get("Range")
        self.send_response(206 if wanted else 200)
        if wanted:
            start, end = wanted.removeprefix("bytes=").split("-")
            start, end = int(start), min(int(end), total - 1)
            body = body[start : end + 1]
            self.send_header("Content-Range", f"bytes {start}-{end}/{total}")
        self.send_header("ETag", tag)
        self.send_header("Last-Modified", "Wed, 18 Nov 2026 12:00:00 GMT")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_address[1], flush=True)
server.serve_forever()
