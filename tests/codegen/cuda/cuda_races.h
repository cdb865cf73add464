// Looks for races of CUDA C kernels that `emulator.py` runs with `races`. It comes behind
// `cuda_emu.h`; what a kernel is given as pointers, and its shared arrays, are `Tracked` then, which
// tell `cuda_races.cpp` who touches an element.
#pragma once

namespace emu __attribute__((visibility("default"))) {

// A thread touches the element at `where` of an array of a name.
void touch(const char* array, const void* where, Size bytes, long long index, bool writes,
           bool is_shared);

bool pass_barrier(int line, bool vote = false);
void pass_warp_barrier(int line);

template <class T, bool shared>
class Reference {
 public:
  Reference(const char* name, T* where, long long index)
      : name_(name), where_(where), index_(index) {}
  operator T() const {
    touch(name_, where_, sizeof(T), index_, false, shared);
    return *where_;
  }
  void operator=(T value) const {
    touch(name_, where_, sizeof(T), index_, true, shared);
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
  Reference<T, shared> operator[](long long index) const { return {name_, first_ + index, index}; }
  explicit operator unsigned long long() const { return (unsigned long long)first_; }

 private:
  T* first_;
  const char* name_;
};

template <class T>
class Tracked<const T> {
 public:
  Tracked(const T* first, const char* name) : first_(first), name_(name) {}
  T operator[](long long index) const {
    touch(name_, first_ + index, sizeof(T), index, false, false);
    return first_[index];
  }
  explicit operator unsigned long long() const { return (unsigned long long)first_; }

 private:
  const T* first_;
  const char* name_;
};

}  // namespace emu

#undef __syncthreads
#undef __syncthreads_or
#undef __syncwarp
#undef SF_SHARED
#undef SF_PAIR
#define SF_PAIR(array, at) ((unsigned)array[at] | (unsigned)array[(at) + 1] << 16)
#define __syncthreads() emu::pass_barrier(__LINE__)
#define __syncthreads_or(vote) emu::pass_barrier(__LINE__, vote)
#define __syncwarp() emu::pass_warp_barrier(__LINE__)
#define SF_SHARED(type, name, count)   \
  const emu::Tracked<type, true> name( \
      (type*)emu::shared_array(__COUNTER__, (count) * sizeof(type)), #name)
