"""Taking out of a mined reference what its own arguments never run, and what nothing reads after that."""
