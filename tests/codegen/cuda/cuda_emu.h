// What CUDA C kernels name, for those that run on the host in tests. Included before the text of the
// kernels, which is compiled as it is; the library of `cuda_emu.cpp` and `cuda_races.cpp`, which is
// compiled once, schedules blocks and threads and finds failures; `emulator.py` compiles, loads and
// launches. What is here is compiled with every source, so it is little, and includes nothing: the
// headers of the standard library take ten times as long as a kernel.
//
// What cannot be plain C++ is a macro that a kernel writes in this form on a GPU too:
//   SF_SHARED(float, name, 256);      a block's shared array of 256 floats
//   SF_PAIR(name, at)                 two neighbours in an array of 16-bit floats
#pragma once

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)

struct dim3 {
  unsigned x, y, z;
};
using uint3 = dim3;

namespace emu __attribute__((visibility("default"))) {

using Size = decltype(sizeof 0);
using Word = unsigned long long;
static_assert(sizeof(Word) == 8, "a word is of 64 bits");

// ---- the launch under way, by the library --------------------------------------------------------

extern dim3 grid, block;
extern uint3 block_index;
extern const uint3* thread_index;  // of the running thread

unsigned thread_number();  // of the running thread in its block

// Returns whether any thread of the block gave a true vote.
bool barrier(int line, bool vote = false);

// The values that all lanes of the running thread's warp give.
const Word* exchange(unsigned mask, Word value, int line);

bool any_lane(unsigned mask, bool vote, int line);

// The last `bytes` of shared array number `id` of the running block: poisoned at the block's first
// use of it, its end at a page without access.
void* shared_array(Size id, Size bytes);

// ---- what depends on types -----------------------------------------------------------------------

// The value of lane `source`, the own one if there is no such lane.
template <class T>
T shuffle(unsigned mask, T value, unsigned source, int line) {
  Word bits = 0;
  __builtin_memcpy(&bits, &value, sizeof value);
  const Word* values = exchange(mask, bits, line);
  if (source < 32) __builtin_memcpy(&value, &values[source], sizeof value);
  return value;
}

// Two neighbours of 16 bits as 32, as a GPU loads them: from a multiple of 4 bytes.
inline unsigned pair(const unsigned short* first) {
  if ((Word)first % 4) __builtin_trap();
  unsigned both = 0;
  __builtin_memcpy(&both, first, sizeof both);
  return both;
}

template <class T, class Change>
T update(T* where, Change change) {  // one OS thread: every read and write is atomic
  const T before = *where;
  *where = change(before);
  return before;
}

// A call of a kernel. Braces around the arguments make sure that they are read in their order.
struct Call {
  template <class... A>
  Call(void (*kernel)(A...), A... given) {
    kernel(given...);
  }
};

template <class... A>
void call(void (*kernel)(A...), void** values) {  // which point to the arguments
  Call{kernel, *(A*)*values++...};
}

// A parameter in three characters: `c` for a pointer to constants, `p` for another, `v` for a value;
// the kind of its type and the bytes of that, as NumPy writes them: "cf4vi8".
template <class T>
struct Type {
  static constexpr char access = 'v', size = '0' + sizeof(T),
                        kind = T(0.5) ? T(2) == T(1) ? 'b' : 'f' : T(-1) < T(1) ? 'i' : 'u';
};
template <class T>
struct Type<T*> : Type<T> {
  static constexpr char access = 'p';
};
template <class T>
struct Type<const T*> : Type<T> {
  static constexpr char access = 'c';
};

template <class... A>
void write_types(void (*)(A...), char* text) {
  ((*text++ = Type<A>::access, *text++ = Type<A>::kind, *text++ = Type<A>::size), ...);
  *text = 0;
}

template <class To, class From>
To bits(From value) {
  static_assert(sizeof(To) == sizeof(From), "bits of another width");
  To result;
  __builtin_memcpy(&result, &value, sizeof result);
  return result;
}

}  // namespace emu

#define EMU_VISIBLE extern "C" __attribute__((visibility("default")))
#define EMU_EXPORT(kernel)                                              \
  EMU_VISIBLE void kernel##_call(void** v) { emu::call(kernel, v); }     \
  EMU_VISIBLE void kernel##_types(char* t) { emu::write_types(kernel, t); }

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
#define SF_PAIR(array, at) emu::pair(&array[at])
#define SF_SHARED(type, name, count) \
  type* const name = (type*)emu::shared_array(__COUNTER__, (count) * sizeof(type))

inline int atomicCAS(int* where, int expected, int value) {
  return emu::update(where, [=](int old) { return old == expected ? value : old; });
}
inline int atomicAdd(int* where, int value) {
  return emu::update(where, [=](int old) { return old + value; });
}

inline float __int_as_float(int x) { return emu::bits<float>(x); }
inline float __uint_as_float(unsigned x) { return emu::bits<float>(x); }
inline int __float_as_int(float x) { return emu::bits<int>(x); }
inline unsigned __float_as_uint(float x) { return emu::bits<unsigned>(x); }
inline double __longlong_as_double(long long x) { return emu::bits<double>(x); }
inline long long __double_as_longlong(double x) { return emu::bits<long long>(x); }

#ifndef EMU_LIBRARY  // which has them of C's header
#define EMU_FUNCTION(name, ...)        \
  float name##f(float, ##__VA_ARGS__); \
  double name(double, ##__VA_ARGS__);
extern "C" {
EMU_FUNCTION(fabs)
EMU_FUNCTION(sqrt)
EMU_FUNCTION(floor)
EMU_FUNCTION(ceil)
EMU_FUNCTION(trunc)
EMU_FUNCTION(rint)
EMU_FUNCTION(frexp, int*)
float copysignf(float, float);
double copysign(double, double);
float fmaf(float, float, float);
double fma(double, double, double);
}
#endif
