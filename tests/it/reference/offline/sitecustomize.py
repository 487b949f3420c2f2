"""On the path of a server under test: notes in the file STRIDE_PIPE_OUTSIDE whatever would leave this machine."""

import os
import socket

HERE = ("127.", "::1", "localhost", "0.0.0.0", "::")


def note(host):
    if isinstance(host, bytes):
        host = host.decode(errors="replace")
    if host and not str(host).startswith(HERE) and host != socket.gethostname():
        with open(os.environ["STRIDE_PIPE_OUTSIDE"], "a") as file:
            file.write(f"{host}\n")


def connecting(method):
    def connect(self, address):
        if self.family in (socket.AF_INET, socket.AF_INET6):
            note(address[0])
        return method(self, address)

    return connect


def looking_up(function):
    def getaddrinfo(host, *arguments, **more):
        note(host)
        return function(host, *arguments, **more)

    return getaddrinfo


if "STRIDE_PIPE_OUTSIDE" in os.environ:
    socket.socket.connect = connecting(socket.socket.connect)
    socket.socket.connect_ex = connecting(socket.socket.connect_ex)
    socket.getaddrinfo = looking_up(socket.getaddrinfo)
