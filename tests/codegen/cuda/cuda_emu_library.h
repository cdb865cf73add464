// What the parts of the emulator's library say to each other: the scheduler of `cuda_emu.cpp` and the
// records of `cuda_races.cpp`.
#pragma once
#define EMU_LIBRARY
#include "cuda_emu.h"

namespace emu {

// The number of the running block, counted from the first that this process ran.
unsigned long long block_number();

// What was found of races is forgotten.
void begin_races();

// What was found of races in the launch; an empty text if there were none.
const char* found_race();

}  // namespace emu
