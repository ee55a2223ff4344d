"""The head: which servers are there, what runs did, and a page that shows both."""
