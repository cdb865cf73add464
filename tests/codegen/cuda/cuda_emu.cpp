// Runs CUDA C kernels on the host, for tests: blocks and threads of a launch, their barriers and
// what warps exchange. It is compiled once; kernels that `emulator.py` loads behind it find it.
//
// A CUDA thread runs on a fiber, all fibers on one OS thread. A fiber runs thread after thread of
// the block until one has to wait at a barrier; then the scheduler goes on with another fiber. So
// a kernel without barriers costs no switches. Blocks run one after the other. The order of the
// blocks, of the threads that start and of those that a barrier releases is chosen at the launch.
//
// A failure (trap, misused barrier) leaves the kernel by siglongjmp, from whatever fiber, and its
// message names block and thread.
#include "cuda_emu_library.h"

#include <algorithm>
#include <csetjmp>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <string>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <vector>

namespace emu {

// ---- memory ------------------------------------------------------------------------------------

// Whole pages between memory that cannot be accessed: a page behind, and `front` bytes before.
struct GuardedPages {
  char* begin = nullptr;
  size_t bytes = 0, front = 0;

  static size_t page() { return (size_t)sysconf(_SC_PAGESIZE); }
  void allocate(size_t least, size_t guard = page()) {
    bytes = (least + page() - 1) / page() * page();
    front = guard;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    begin = (char*)mmap(nullptr, front + bytes + page(), PROT_NONE, flags, -1, 0) + front;
    mprotect(begin, bytes, PROT_READ | PROT_WRITE);
  }
  void free() {
    if (begin) munmap(begin - front, front + bytes + page());
  }
};

// ---- the launch under way ----------------------------------------------------------------------

enum Order { forward, reverse, seeded };

// Fibers are left and entered by _setjmp and _longjmp, which do not ask the system for the mask of
// signals; `context` is for the first time.
struct Fiber {
  ucontext_t context;
  bool begun = false;
  jmp_buf left;
  GuardedPages stack;
  uint3 thread;
};

struct SharedArray {
  GuardedPages pages;
  size_t bytes = 0;
  uint64_t block = 0;  // the serial number of the block that it was poisoned for
};

// The warp operation that lanes wait at. Every lane gives a value; two tables, because lanes may be
// at the next operation before others have looked at the values of this one.
struct Warp {
  Word values[2][32];
  unsigned operation, returned;
  int line;
  std::deque<Fiber*> waiting;
};

struct Launch {
  Order order;
  uint64_t random;
  void (*kernel)(void** arguments);
  void** arguments;
  std::vector<uint3> threads;  // of a block, in the order in which they start
  size_t started, returned;
  std::vector<Fiber*> fibers, idle;
  std::deque<Fiber*> ready, waiting;  // able to go on; at a barrier
  int barrier_line;
  bool votes[2];  // whether a thread has voted for it at this barrier; and at the next
  unsigned barriers;
  std::vector<Warp> warps;
  std::string failure;
};

// What is asked for, as `emulator.py` writes it.
struct Config {
  unsigned grid[3], block[3], order, seed, races;
};

dim3 grid, block;
uint3 block_index;
const uint3* thread_index;

static Launch now;
static uint64_t block_serial;  // of the running block, counted over all launches
static std::vector<Fiber*> kept_fibers;  // of earlier launches, that wait for a thread to run
static std::vector<SharedArray> shared;
static Fiber* running;
static jmp_buf scheduler;
static sigjmp_buf escape;
static const size_t stack_bytes = 256 << 10;
static const size_t stack_guard = 4 << 20;  // a large frame must not reach over it

// Ends the launch; `what` and where the running thread is become its message.
[[noreturn]] __attribute__((format(printf, 1, 2))) static void fail(const char* what, ...) {
  char text[160], where[160];
  va_list values;
  va_start(values, what);
  vsnprintf(text, sizeof text, what, values);
  va_end(values);
  const uint3 b = block_index, t = running->thread;
  snprintf(where, sizeof where, " in block (%u, %u, %u), thread (%u, %u, %u)", b.x, b.y, b.z, t.x,
           t.y, t.z);
  now.failure = std::string(text) + where;
  siglongjmp(escape, 1);
}

static void on_trap(int signal, siginfo_t* info, void*) {
  if (signal == SIGFPE) fail("integer division by zero");
  fail("memory access out of bounds at %p", info->si_addr);
}

// ---- scheduling --------------------------------------------------------------------------------

static void leave() {  // the running fiber, until somebody enters it again
  if (_setjmp(running->left) == 0) _longjmp(scheduler, 1);
}

static void enter(Fiber* fiber) {  // returns when it is left
  running = fiber;
  thread_index = &fiber->thread;
  if (_setjmp(scheduler) != 0) return;
  if (running->begun) _longjmp(running->left, 1);
  running->begun = true;
  setcontext(&running->context);
}

static uint64_t draw(uint64_t below) {  // a 64-bit linear congruential generator, Knuth's constants
  now.random = now.random * 6364136223846793005u + 1442695040888963407u;
  return (now.random >> 33) % below;
}

template <class Sequence>
void arrange(Sequence& items) {
  const size_t n = items.size();
  if (now.order == reverse)
    for (size_t i = 0; i < n / 2; i++) std::swap(items[i], items[n - 1 - i]);
  if (now.order == seeded)
    for (size_t i = n; i > 1; i--) std::swap(items[i - 1], items[draw(i)]);
}

unsigned thread_number() {
  const uint3 t = running->thread;
  return t.x + block.x * (t.y + block.y * t.z);
}

static void fiber_main() {
  while (true) {
    while (now.started < now.threads.size()) {
      running->thread = now.threads[now.started++];
      now.kernel(now.arguments);
      now.returned++;
      if (!now.waiting.empty())
        fail("a thread returned while others wait at the barrier of line %d", now.barrier_line);
      Warp& warp = now.warps[thread_number() / 32];
      warp.returned++;
      if (!warp.waiting.empty())
        fail("a thread returned while others wait at the warp operation of line %d", warp.line);
    }
    now.idle.push_back(running);
    leave();
  }
}

static Fiber* idle_fiber() {
  if (now.idle.empty() && !kept_fibers.empty()) {
    Fiber* fiber = kept_fibers.back();
    kept_fibers.pop_back();
    now.fibers.push_back(fiber);
    return fiber;
  }
  if (now.idle.empty()) {
    Fiber* fiber = new Fiber();
    fiber->stack.allocate(stack_bytes, stack_guard);
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->stack.begin;
    fiber->context.uc_stack.ss_size = fiber->stack.bytes;
    makecontext(&fiber->context, fiber_main, 0);
    now.fibers.push_back(fiber);
    return fiber;
  }
  Fiber* fiber = now.idle.back();
  now.idle.pop_back();
  return fiber;
}

// Runs one block. Barriers and warp operations refuse what could deadlock each for itself.
static void run_block() {
  now.started = now.returned = 0;
  now.warps.assign((now.threads.size() + 31) / 32, Warp{});
  while (!now.ready.empty() || now.started < now.threads.size()) {
    if (now.ready.empty()) {
      enter(idle_fiber());
    } else {
      Fiber* const next = now.ready.front();
      now.ready.pop_front();
      enter(next);
    }
  }
  for (const Warp& warp : now.warps)
    if (!warp.waiting.empty())
      fail("threads wait at the barrier of line %d and at the warp operation of line %d",
           now.barrier_line, warp.line);
}

bool barrier(int line, bool vote) {
  if (now.returned) fail("the barrier of line %d comes after threads of the block returned", line);
  if (now.waiting.empty()) now.barrier_line = line;
  if (now.barrier_line != line)
    fail("threads wait at the barriers of lines %d and %d", now.barrier_line, line);
  bool& any = now.votes[now.barriers % 2];
  any |= vote;
  now.waiting.push_back(running);
  if (now.waiting.size() == now.threads.size()) {
    now.ready.swap(now.waiting);
    arrange(now.ready);
    now.votes[++now.barriers % 2] = false;
  }
  leave();
  return any;
}

const Word* exchange(unsigned mask, Word value, int line) {
  const unsigned number = thread_number();
  Warp& warp = now.warps[number / 32];
  if (mask != ~0u) fail("the warp operation of line %d is not of all lanes", line);
  if (number / 32 * 32 + 32 > now.threads.size())
    fail("the warp operation of line %d is in a warp of fewer than 32 threads", line);
  if (warp.returned)
    fail("the warp operation of line %d comes after threads of the warp returned", line);
  if (warp.waiting.empty()) warp.line = line;
  if (warp.line != line)
    fail("threads of a warp wait at the warp operations of lines %d and %d", warp.line, line);
  Word* values = warp.values[warp.operation % 2];
  values[number % 32] = value;
  warp.waiting.push_back(running);
  if (warp.waiting.size() == 32) {
    warp.operation++;
    arrange(warp.waiting);
    now.ready.insert(now.ready.end(), warp.waiting.begin(), warp.waiting.end());
    warp.waiting.clear();
  }
  leave();
  return values;
}

bool any_lane(unsigned mask, bool vote, int line) {
  const Word* values = exchange(mask, vote, line);
  return std::any_of(values, values + 32, [](Word v) { return v != 0; });
}

void* shared_array(size_t id, size_t bytes) {
  if (id >= shared.size()) shared.resize(id + 1);
  SharedArray& array = shared[id];
  if (array.bytes != bytes) {  // of an earlier launch, or none
    array.pages.free();
    array.pages.allocate(bytes);
    array.bytes = bytes;
  }
  if (array.block != block_serial) {
    array.block = block_serial;
    memset(array.pages.begin, 0xff, array.pages.bytes);
  }
  return array.pages.begin + array.pages.bytes - bytes;
}

// ---- launching ---------------------------------------------------------------------------------

static std::vector<uint3> arranged_indices(dim3 extent) {
  std::vector<uint3> indices;
  for (unsigned z = 0; z < extent.z; z++)
    for (unsigned y = 0; y < extent.y; y++)
      for (unsigned x = 0; x < extent.x; x++) indices.push_back({x, y, z});
  arrange(indices);
  return indices;
}

static void run_grid() {
  for (const uint3& index : arranged_indices(grid)) {
    now.threads = arranged_indices(block);
    block_index = index;
    block_serial++;
    run_block();
  }
}

// Installs the trap handlers while it lives; they run on a stack of their own, because a trap may
// be a fiber's stack that overflowed.
struct Traps {
  static constexpr int signals[3] = {SIGSEGV, SIGBUS, SIGFPE};
  struct sigaction before[3];
  stack_t stack_before;
  char stack[64 << 10];
  Traps() {
    stack_t alternate{};
    alternate.ss_sp = stack;
    alternate.ss_size = sizeof stack;
    sigaltstack(&alternate, &stack_before);
    struct sigaction action {};
    action.sa_sigaction = on_trap;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (int i = 0; i < 3; i++) sigaction(signals[i], &action, &before[i]);
  }
  ~Traps() {
    for (int i = 0; i < 3; i++) sigaction(signals[i], &before[i], nullptr);
    sigaltstack(&stack_before, nullptr);
  }
};

unsigned long long block_number() { return block_serial; }

}  // namespace emu

// Runs `kernel` over the grid. Returns whether it failed, with the reason in `message` (512 bytes).
EMU_VISIBLE int emu_launch(void (*kernel)(void**), void** arguments, const emu::Config* config,
                           char* message) {
  using namespace emu;
  now = Launch{};
  grid = {config->grid[0], config->grid[1], config->grid[2]};
  block = {config->block[0], config->block[1], config->block[2]};
  now.order = (Order)config->order;
  now.random = config->seed;
  now.kernel = kernel;
  now.arguments = arguments;
  if (config->races) begin_races();
  {
    Traps traps;
    if (sigsetjmp(escape, 1) == 0) run_grid();
  }
  if (now.failure.empty()) {  // so every fiber has come to its end
    kept_fibers.insert(kept_fibers.end(), now.fibers.begin(), now.fibers.end());
    if (config->races) now.failure = found_race();
  } else {
    for (Fiber* fiber : now.fibers) {
      fiber->stack.free();
      delete fiber;
    }
  }
  snprintf(message, 512, "%s", now.failure.c_str());
  return !now.failure.empty();
}
