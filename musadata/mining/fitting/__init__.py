"""What the rest of a tree says of a class's arguments: constructors of base classes, settings, modules that fit."""
