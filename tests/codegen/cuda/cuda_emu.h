// What CUDA C kernels name, for those that run on the host in tests. Included before the text of the
// kernels, which is compiled as it is and linked with `cuda_emu.cpp`, where blocks and threads are
// scheduled and failures are found; `emulator.py` compiles, loads and launches. What is here is
// compiled with every source, so it is little.
//
// What cannot be plain C++ is a macro that a kernel writes in this form on a GPU too:
//   SF_SHARED(float, name, 256);      a block's shared array of 256 floats
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)

struct dim3 {
  unsigned x, y, z;
};
using uint3 = dim3;

namespace emu {

// ---- the launch under way, by `cuda_emu.cpp` -----------------------------------------------------

struct Config {
  unsigned grid[3], block[3], order, seed;
};

extern dim3 grid, block;
extern uint3 block_index;
extern const uint3* thread_index;  // of the running thread

// Runs `kernel` over the grid. Returns whether it failed, with the reason in `message` (512 bytes).
int launch(void (*kernel)(void*), void* arguments, const Config& config, char* message);

unsigned thread_number();  // of the running thread in its block

// Returns whether any thread of the block gave a true vote.
bool barrier(int line, bool vote = false);

// The values that all lanes of the running thread's warp give.
const uint64_t* exchange(unsigned mask, uint64_t value, int line);

bool any_lane(unsigned mask, bool vote, int line);

// The last `bytes` of shared array number `id` of the running block: poisoned at the block's first
// use of it, its end at a page without access.
void* shared_array(size_t id, size_t bytes);

// ---- what depends on types -----------------------------------------------------------------------

// The value of lane `source`, the own one if there is no such lane.
template <class T>
T shuffle(unsigned mask, T value, unsigned source, int line) {
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof value);
  const uint64_t* values = exchange(mask, bits, line);
  if (source < 32) memcpy(&value, &values[source], sizeof value);
  return value;
}

template <class T, class Change>
T update(T* where, Change change) {  // one OS thread: every read and write is atomic
  const T before = *where;
  *where = change(before);
  return before;
}

template <class... A>
struct Call {
  void (*kernel)(A...);
  void** values;  // which point to the arguments
};

template <class... A, size_t... I>
void call(const Call<A...>& given, std::index_sequence<I...>) {
  given.kernel(*(std::remove_cv_t<A>*)given.values[I]...);
}

template <class... A>
int launch(void (*kernel)(A...), const Config& config, void** values, char* message) {
  Call<A...> given{kernel, values};
  const auto run = [](void* p) { call(*(Call<A...>*)p, std::index_sequence_for<A...>()); };
  return launch(run, &given, config, message);
}

// The parameter types as NumPy names them, each behind a comma: ",const float32*,int64".
template <class T>
void add_type_name(char*& end) {
  if constexpr (std::is_pointer_v<T>) {
    using Element = std::remove_pointer_t<T>;
    if (std::is_const_v<Element>) end = stpcpy(end, "const ");
    add_type_name<std::remove_cv_t<Element>>(end);
    end = stpcpy(end, "*");
  } else if constexpr (std::is_same_v<T, bool>) {
    end = stpcpy(end, "bool");
  } else {
    const char* kind = std::is_floating_point_v<T> ? "float" : std::is_signed_v<T> ? "int" : "uint";
    const char* bits[] = {"", "8", "16", "", "32", "", "", "", "64"};
    end = stpcpy(stpcpy(end, kind), bits[sizeof(T)]);
  }
}

template <class... A>
const char* signature(void (*)(A...)) {
  static char text[24 * sizeof...(A) + 2];
  char* end = text;
  ((end = stpcpy(end, ","), add_type_name<A>(end)), ...);
  return text + (sizeof...(A) > 0);
}

}  // namespace emu

#define EMU_EXPORT(kernel)                                                                         \
  EMU_VISIBLE int kernel##_launch(const emu::Config* config, void** values, char* message) {       \
    return emu::launch(kernel, *config, values, message);                                          \
  }                                                                                                \
  EMU_VISIBLE const char* kernel##_signature() { return emu::signature(kernel); }
#define EMU_VISIBLE extern "C" __attribute__((visibility("default")))

// ---- what kernels name -------------------------------------------------------------------------

#define threadIdx (*emu::thread_index)
#define blockIdx (emu::block_index)
#define blockDim (emu::block)
#define gridDim (emu::grid)
#define __syncthreads() ((void)emu::barrier(__LINE__))
#define __syncthreads_or(vote) emu::barrier(__LINE__, vote)
#define __syncwarp() ((void)emu::exchange(~0u, 0, __LINE__))
#define __any_sync(mask, vote) emu::any_lane(mask, vote, __LINE__)
#define __shfl_sync(mask, value, lane) emu::shuffle(mask, value, lane, __LINE__)
#define __shfl_up_sync(mask, value, by) \
  emu::shuffle(mask, value, emu::thread_number() % 32 - (by), __LINE__)
#define __shfl_down_sync(mask, value, by) \
  emu::shuffle(mask, value, emu::thread_number() % 32 + (by), __LINE__)
#define SF_SHARED(type, name, count) \
  type* const name = (type*)emu::shared_array(__COUNTER__, (count) * sizeof(type))

inline int atomicCAS(int* where, int expected, int value) {
  return emu::update(where, [=](int old) { return old == expected ? value : old; });
}
inline int atomicAdd(int* where, int value) {
  return emu::update(where, [=](int old) { return old + value; });
}

template <class To, class From>
inline To emu_bits(From value) {
  static_assert(sizeof(To) == sizeof(From), "bits of another width");
  To result;
  memcpy(&result, &value, sizeof result);
  return result;
}
inline float __int_as_float(int x) { return emu_bits<float>(x); }
inline float __uint_as_float(unsigned x) { return emu_bits<float>(x); }
inline int __float_as_int(float x) { return emu_bits<int>(x); }
inline unsigned __float_as_uint(float x) { return emu_bits<unsigned>(x); }
inline double __longlong_as_double(long long x) { return emu_bits<double>(x); }
inline long long __double_as_longlong(double x) { return emu_bits<long long>(x); }
