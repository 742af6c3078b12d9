#pragma once
#include <musa_aliases.h>
