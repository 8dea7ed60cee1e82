"""The HTTP side of the API: reads, writes, events and jobs over what a pipeline keeps."""
