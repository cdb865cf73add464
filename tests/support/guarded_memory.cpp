// Memory in which every block lies beside pages that may not be touched, for NumPy's arrays and for
// the arenas of programs. Blocks end at such a page or begin at one, without a pattern; what is not
// written yet is 0xFF, which is NaN as a float; what was freed may not be touched either.
//
// A block has pages of its own: [its size, protected while it lives][the block][a protected page].

#include <atomic>
#include <cstdint>
#include <cstring>
#include <sys/mman.h>

namespace {

constexpr std::size_t kPage = 4096;
std::atomic<std::uint64_t> blocks{0};

std::size_t inner_bytes(std::size_t size) { return (size + kPage - (size != 0)) / kPage * kPage; }

char* make(std::size_t size, std::size_t alignment, int fill) {
  std::size_t inner = inner_bytes(size);
  void* base = mmap(nullptr, inner + 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return nullptr;
  char* first = static_cast<char*>(base) + kPage;
  *static_cast<std::size_t*>(base) = size;
  bool at_end = blocks.fetch_add(1) * 0x9E3779B97F4A7C15u >> 63;
  std::size_t lead = at_end ? (inner - size) / alignment * alignment : 0;
  if (fill) std::memset(first, fill, inner);
  mprotect(base, kPage, PROT_NONE);
  mprotect(first + inner, kPage, PROT_NONE);
  return first + lead;
}

char* base_of(void* block) {
  std::uintptr_t page = reinterpret_cast<std::uintptr_t>(block) / kPage * kPage;
  return reinterpret_cast<char*>(page - kPage);
}

std::size_t size_of(void* block) {
  char* base = base_of(block);
  mprotect(base, kPage, PROT_READ);
  return *reinterpret_cast<std::size_t*>(base);
}

void drop(void* block) {
  if (block != nullptr) munmap(base_of(block), inner_bytes(size_of(block)) + 2 * kPage);
}

char* move(void* block, std::size_t size, std::size_t alignment) {
  char* other = make(size, alignment, 0xFF);
  if (block != nullptr && other != nullptr) {
    std::size_t had = size_of(block);
    std::memcpy(other, block, had < size ? had : size);
    drop(block);
  }
  return other;
}

}  // namespace

extern "C" {

// For NumPy: PyDataMem_Handler. A block ends just where it must not be read on, since the sizes of
// arrays are multiples of their alignment.
void* numpy_malloc(void*, std::size_t size) { return make(size, 1, 0xFF); }
void* numpy_calloc(void*, std::size_t count, std::size_t size) { return make(count * size, 1, 0); }
void* numpy_realloc(void*, void* block, std::size_t size) { return move(block, size, 1); }
void numpy_free(void*, void* block, std::size_t) { drop(block); }

// For programs, whose vectors are aligned.
void* guarded_aligned_alloc(std::size_t alignment, std::size_t size) { return make(size, alignment, 0xFF); }
void* guarded_realloc(void* block, std::size_t size) { return move(block, size, 64); }
void guarded_free(void* block) { drop(block); }

}
