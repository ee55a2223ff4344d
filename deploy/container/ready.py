"""The health check of the images: exits 0 when the service on this container's PORT answers 200 on /ready.

Run as `python ready.py PORT`. It has no dependency and asks loopback directly, whatever proxy the environment names.
"""

import http.client
import sys

TIMEOUT_S = 3


def main(port: int) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", "/ready")
        answer = connection.getresponse()
        print(answer.status, answer.read(2000).decode(errors="replace"))
    except OSError as error:
        print(f"not ready: {error}")
        return 1
    finally:
        connection.close()
    return 0 if answer.status == http.client.OK else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
