"""What becomes of verified candidates: how they differ, which are kept, what conversations they form."""
