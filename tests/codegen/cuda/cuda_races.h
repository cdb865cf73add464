// Looks for races of CUDA C kernels that `emulator.py` runs with `races`. It comes behind
// `cuda_emu.h`; what a kernel is given as pointers, and its shared arrays, are `Tracked` then, whose
// elements know who has touched them in this launch.
//
// Two threads race that touch one element, one of them to write, where no barrier lies between:
// `__syncthreads` of their block, or `__syncwarp` of their warp. Shuffles and votes of a warp are no
// barriers, as they order no memory, and between blocks there is none. An element that is written
// by one pointer and touched by another, which is `__restrict__`, is a fault, too, and so is one that
// does not lie at a multiple of its size.
#pragma once
#include <cstdio>
#include <unordered_map>

namespace emu {

struct Touch {
  const void* array = nullptr;  // null if there was none
  uint64_t block;
  unsigned thread, barriers, warp_barriers;
};

struct Element {
  Touch write, read;
  bool warps = false, threads = false, blocks = false;  // whether several read since a barrier
};

inline std::unordered_map<uintptr_t, Element> elements;
inline char race[256];
inline uint64_t block_number;  // of the running block, counted from the start of the launch
inline uint3 known_block;
inline std::unordered_map<unsigned, unsigned> barriers_of, warp_barriers_of;  // by thread

inline void begin_launch() {
  elements.clear();
  race[0] = 0;
  block_number = 0;
}

inline void look_at_block() {
  const uint3 b = block_index;
  if (block_number && b.x == known_block.x && b.y == known_block.y && b.z == known_block.z) return;
  known_block = b;
  block_number++;
  barriers_of.clear();
  warp_barriers_of.clear();
}

inline Touch touch_of(const void* array) {
  look_at_block();
  const unsigned n = thread_number();
  return {array, block_number, n, barriers_of[n], warp_barriers_of[n]};
}

// Whether `before` is done, and seen, when a thread touches an element `now`.
inline bool is_seen(const Touch& before, const Touch& now) {
  if (before.block != now.block) return false;
  if (before.thread == now.thread || before.barriers < now.barriers) return true;
  return before.thread / 32 == now.thread / 32 && before.warp_barriers < now.warp_barriers;
}

inline void report(const char* what, const char* name, long long index, const Touch& before,
                   const Touch& now) {
  if (race[0]) return;
  snprintf(race, sizeof race,
           "%s: %s[%lld] is touched by thread %u of block %llu and thread %u of block %llu", what,
           name, index, before.thread, (unsigned long long)before.block - 1, now.thread,
           (unsigned long long)now.block - 1);
}

template <bool shared>
void touch(const char* name, const void* where, size_t bytes, long long index, bool writes) {
  const void* const array = name;
  Touch now = touch_of(array);
  if ((uintptr_t)where % bytes) report("a misaligned address", name, index, now, now);
  Element& e = elements[(uintptr_t)where];
  if (shared && e.write.array && e.write.block != now.block) e = {};  // of another block's array
  if (shared && e.read.array && e.read.block != now.block) e = {};
  if (e.write.array) {
    if (!is_seen(e.write, now)) report("a race", name, index, e.write, now);
    if (e.write.array != array) report("two pointers", name, index, e.write, now);
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
      if (!seen) report("a race", name, index, read, now);
      if (e.read.array != array) report("two pointers", name, index, e.read, now);
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

template <class T, bool shared>
class Reference {
 public:
  Reference(const char* name, T* where, long long index)
      : name_(name), where_(where), index_(index) {}
  operator T() const {
    touch<shared>(name_, where_, sizeof(T), index_, false);
    return *where_;
  }
  void operator=(T value) const {
    touch<shared>(name_, where_, sizeof(T), index_, true);
    *where_ = value;
  }
  void operator=(const Reference& other) const { *this = (T)other; }

 private:
  const char* name_;
  T* where_;
  long long index_;
};

template <class T, bool shared = false>
class Tracked {
 public:
  Tracked(T* first, const char* name) : first_(first), name_(name) {}
  auto operator[](long long index) const {
    if constexpr (std::is_const_v<T>) {
      touch<shared>(name_, first_ + index, sizeof(T), index, false);
      return first_[index];
    } else {
      return Reference<T, shared>(name_, first_ + index, index);
    }
  }
  explicit operator unsigned long long() const { return (unsigned long long)first_; }

 private:
  T* first_;
  const char* name_;
};

}  // namespace emu

#undef __syncthreads
#undef __syncthreads_or
#undef __syncwarp
#undef SF_SHARED
#undef EMU_EXPORT
#define __syncthreads() emu::pass_barrier(__LINE__)
#define __syncthreads_or(vote) emu::pass_barrier(__LINE__, vote)
#define __syncwarp() emu::pass_warp_barrier(__LINE__)
#define SF_SHARED(type, name, count)       \
  const emu::Tracked<type, true> name(     \
      (type*)emu::shared_array(__COUNTER__, (count) * sizeof(type)), #name)
#define EMU_EXPORT(kernel)                                                                   \
  EMU_VISIBLE int kernel##_launch(const emu::Config* config, void** values, char* message) { \
    emu::begin_launch();                                                                     \
    const int failed = emu::launch(kernel, *config, values, message);                        \
    if (failed || !emu::race[0]) return failed;                                              \
    snprintf(message, 512, "%s", emu::race);                                                 \
    return 1;                                                                                \
  }                                                                                          \
  EMU_VISIBLE const char* kernel##_signature() { return emu::signature(kernel); }

namespace emu {

inline bool pass_barrier(int line, bool vote = false) {
  look_at_block();
  const bool any = barrier(line, vote);
  barriers_of[thread_number()]++;
  return any;
}

inline void pass_warp_barrier(int line) {
  look_at_block();
  exchange(~0u, 0, line);
  warp_barriers_of[thread_number()]++;
}

}  // namespace emu
