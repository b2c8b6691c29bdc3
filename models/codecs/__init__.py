"""What a shared vector is on the wire: the whole of it, or fewer bits and a memory of what they left out."""
