"""HTTP for bodies of half a megabyte each way: what agent servers are asked, and answer.

A row goes from its file to the socket, an answer from the socket into the one buffer that it is decoded in and written
from. Heads are parsed by httptools; connecting is aiohappyeyeballs' part.
"""
