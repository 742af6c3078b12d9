"""Corrections of arguments with which mined code has failed, from its errors and the lines that raised them."""
