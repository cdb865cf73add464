// Who has touched which element in a launch of a kernel that is compiled behind `cuda_races.h`.
//
// Two threads race that touch one element, one of them to write, where no barrier lies between:
// `__syncthreads` of their block, or `__syncwarp` of their warp. Shuffles and votes of a warp are no
// barriers, as they order no memory, and between blocks there is none. An element that is written
// by one pointer and touched by another, which is `__restrict__`, is a fault, too, and so is one that
// does not lie at a multiple of its size.
#include "cuda_emu_library.h"
#include "cuda_races.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unordered_map>

namespace emu {

struct Touch {
  const void* array;  // null if there was none
  uint64_t block;
  unsigned thread, barriers, warp_barriers;
};

struct Element {
  uint64_t launch;  // in which it was touched; what is of an earlier one is void
  Touch write, read;
  bool warps, threads, blocks;  // whether several read since a barrier
};

// The elements whose addresses have one page, and one remainder by 4. Memory of an earlier launch is
// used again: most launches are on arrays of a few pages.
static const uintptr_t page = 4096, granule = 4;
struct Page {
  Element elements[page / granule];
};
static std::unordered_map<uintptr_t, Page*> pages;
static const size_t most_pages = 256;  // that are kept for the next launch, of 84 kB each

struct Known {  // pages that were looked up lately
  uintptr_t key;
  Page* page;
};
static Known known[64];

static char race[256];
static uint64_t launches, first_block, known_block;
static const unsigned most_threads = 1024;
static unsigned barriers_of[most_threads], warp_barriers_of[most_threads];

void begin_races() {
  if (pages.size() > most_pages) {
    for (const auto& [key, found] : pages) free(found);
    pages.clear();
    memset(known, 0, sizeof known);
  }
  launches++;
  race[0] = 0;
  first_block = block_number() + 1;
}

const char* found_race() { return race; }

static void look_at_block() {
  if (known_block == block_number()) return;
  known_block = block_number();
  memset(barriers_of, 0, sizeof barriers_of);
  memset(warp_barriers_of, 0, sizeof warp_barriers_of);
}

static Element& element_at(uintptr_t address) {
  const uintptr_t key = (address / page * granule + address % granule) + 1;  // none is 0
  Known& seen = known[(key ^ key / 64) % 64];
  if (seen.key != key) {
    Page*& found = pages[key];
    if (!found) found = (Page*)calloc(1, sizeof(Page));
    seen = {key, found};
  }
  Element& element = seen.page->elements[address % page / granule];
  if (element.launch != launches) {
    memset(&element, 0, sizeof element);
    element.launch = launches;
  }
  return element;
}

// Whether `before` is done, and seen, when a thread touches an element `now`.
static bool is_seen(const Touch& before, const Touch& now) {
  if (before.block != now.block) return false;
  if (before.thread == now.thread || before.barriers < now.barriers) return true;
  return before.thread / 32 == now.thread / 32 && before.warp_barriers < now.warp_barriers;
}

static void report(const char* what, const char* name, long long index, const Touch& before,
                   const Touch& now) {
  if (race[0]) return;
  snprintf(race, sizeof race,
           "%s: %s[%lld] is touched by thread %u of block %llu and thread %u of block %llu", what,
           name, index, before.thread, (unsigned long long)(before.block - first_block), now.thread,
           (unsigned long long)(now.block - first_block));
}

void touch(const char* array, const void* where, Size bytes, long long index, bool writes,
           bool is_shared) {
  look_at_block();
  const unsigned n = thread_number();
  const Touch now{array, known_block, n, barriers_of[n], warp_barriers_of[n]};
  if ((uintptr_t)where % bytes) report("a misaligned address", array, index, now, now);
  Element& e = element_at((uintptr_t)where);
  if (is_shared &&  // what is of another block's array
      ((e.write.array && e.write.block != now.block) || (e.read.array && e.read.block != now.block)))
    e = Element{launches};
  if (e.write.array) {
    if (!is_seen(e.write, now)) report("a race", array, index, e.write, now);
    if (e.write.array != array) report("two pointers", array, index, e.write, now);
  }
  if (writes) {
    if (e.read.array) {
      Touch read = e.read;
      bool seen = !e.blocks && read.block == now.block;
      if (seen && read.barriers == now.barriers) {
        if (e.warps) seen = false;
        if (e.threads && read.thread == now.thread) read.thread ^= 1;  // another one of the warp
        seen = seen && is_seen(read, now);
      }
      if (!seen) report("a race", array, index, read, now);
      if (e.read.array != array) report("two pointers", array, index, e.read, now);
    }
    e.write = now;
    return;
  }
  if (e.read.array && e.read.block != now.block) e.blocks = true;
  if (e.read.array && e.read.block == now.block && e.read.barriers == now.barriers) {
    e.warps |= e.read.thread / 32 != now.thread / 32;
    e.threads |= e.read.thread != now.thread && e.read.warp_barriers == now.warp_barriers;
  } else {
    e.warps = e.threads = false;
  }
  e.read = now;
}

bool pass_barrier(int line, bool vote) {
  look_at_block();
  const bool any = barrier(line, vote);
  barriers_of[thread_number()]++;
  return any;
}

void pass_warp_barrier(int line) {
  look_at_block();
  exchange(~0u, 0, line);
  warp_barriers_of[thread_number()]++;
}

}  // namespace emu
