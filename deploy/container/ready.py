"""The health check of the images: `python -I -S ready.py PORT` exits 0 when this container answers 200 on /ready.

Run every few seconds for as long as a container lives, so it starts fast: a plain socket, no third-party module, no
HTTP library, and no proxy that the environment may name.
"""

import socket
import sys

TIMEOUT_S = 3
REQUEST = b"GET /ready HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n"


def main(port: int) -> int:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as connection:
            connection.sendall(REQUEST)
            answer = b"".join(iter(lambda: connection.recv(4096), b""))
    except OSError as error:
        print(f"not ready: {error}")
        return 1
    head, _, body = answer.partition(b"\r\n\r\n")
    print(head.split(b"\r\n")[0].decode(errors="replace"), body[:2000].decode(errors="replace"))
    return 0 if head.split(b" ")[1:2] == [b"200"] else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
