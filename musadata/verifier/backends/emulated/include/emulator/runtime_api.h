// The CUDA runtime API, as far as one device whose work is finished at once can have one.
#pragma once
#include <emulator/qualifiers.h>
#include <emulator/vector_types.h>

enum cudaError {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInitializationError = 3,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInvalidSymbol = 13,
  cudaErrorInvalidDevicePointer = 17,
  cudaErrorInvalidMemcpyDirection = 21,
  cudaErrorInvalidDeviceFunction = 98,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700,
  cudaErrorLaunchOutOfResources = 701,
  cudaErrorLaunchTimeout = 702,
  cudaErrorAssert = 710,
  cudaErrorMisalignedAddress = 716,
  cudaErrorLaunchFailure = 719,
  cudaErrorCooperativeLaunchTooLarge = 720,
  cudaErrorNotSupported = 801,
  cudaErrorUnknown = 999
};
typedef cudaError cudaError_t;
typedef struct CUstream_st* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;
typedef struct CUfunc_st* cudaFunction_t;

#define cudaStreamDefault 0
#define cudaStreamNonBlocking 1
#define cudaStreamLegacy ((cudaStream_t)1)
#define cudaStreamPerThread ((cudaStream_t)2)
#define cudaEventDefault 0
#define cudaEventBlockingSync 1
#define cudaEventDisableTiming 2
#define cudaHostAllocDefault 0
#define cudaMemAttachGlobal 1
#define cudaOccupancyDefault 0
#define cudaDeviceScheduleAuto 0

enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
};
enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
  cudaFuncAttributePreferredSharedMemoryCarveout = 9
};
enum cudaSharedCarveout {
  cudaSharedmemCarveoutDefault = -1,
  cudaSharedmemCarveoutMaxL1 = 0,
  cudaSharedmemCarveoutMaxShared = 100
};
enum cudaFuncCache {
  cudaFuncCachePreferNone,
  cudaFuncCachePreferShared,
  cudaFuncCachePreferL1,
  cudaFuncCachePreferEqual
};
enum cudaSharedMemConfig {
  cudaSharedMemBankSizeDefault,
  cudaSharedMemBankSizeFourByte,
  cudaSharedMemBankSizeEightByte
};
enum cudaLimit {
  cudaLimitStackSize,
  cudaLimitPrintfFifoSize,
  cudaLimitMallocHeapSize,
  cudaLimitMaxL2FetchGranularity = 5,
  cudaLimitPersistingL2CacheSize = 6
};
enum cudaDeviceAttr {
  cudaDevAttrMaxThreadsPerBlock = 1,
  cudaDevAttrMaxBlockDimX = 2,
  cudaDevAttrMaxGridDimX = 5,
  cudaDevAttrMaxGridDimY = 6,
  cudaDevAttrMaxSharedMemoryPerBlock = 8,
  cudaDevAttrWarpSize = 10,
  cudaDevAttrMaxRegistersPerBlock = 12,
  cudaDevAttrClockRate = 13,
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrL2CacheSize = 38,
  cudaDevAttrMaxThreadsPerMultiProcessor = 39,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrMaxBlocksPerMultiprocessor = 106,
  cudaDevAttrMaxBlockDimY = 3,
  cudaDevAttrMaxBlockDimZ = 4,
  cudaDevAttrMaxGridDimZ = 7,
  cudaDevAttrTotalConstantMemory = 9,
  cudaDevAttrReservedSharedMemoryPerBlock = 111,
  cudaDevAttrComputeCapabilityMinor = 76,
  cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81,
  cudaDevAttrMaxRegistersPerMultiprocessor = 82,
  cudaDevAttrCooperativeLaunch = 95,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97
};

struct cudaDeviceProp {
  char name[256];
  size_t totalGlobalMem, totalConstMem;
  size_t sharedMemPerBlock, sharedMemPerBlockOptin, sharedMemPerMultiprocessor;
  int multiProcessorCount, maxThreadsPerBlock, warpSize, major, minor;
  int maxThreadsPerMultiProcessor, regsPerBlock, regsPerMultiprocessor, l2CacheSize;
  int maxBlocksPerMultiProcessor, concurrentKernels, integrated, cooperativeLaunch;
  int maxGridSize[3], maxThreadsDim[3];
};
struct cudaFuncAttributes {
  size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
  int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, maxDynamicSharedSizeBytes;
};
struct cudaPointerAttributes {
  int type, device;
  void *devicePointer, *hostPointer;
};

static inline const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInvalidConfiguration: return "invalid configuration argument";
    case cudaErrorInvalidSymbol: return "invalid device symbol";
    case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
    case cudaErrorLaunchOutOfResources: return "too many resources requested for launch";
    case cudaErrorAssert: return "device-side assert triggered";
    case cudaErrorMisalignedAddress: return "misaligned address";
    case cudaErrorLaunchFailure: return "unspecified launch failure";
    case cudaErrorCooperativeLaunchTooLarge: return "too many blocks in cooperative launch";
    case cudaErrorNotSupported: return "operation not supported";
    default: return "unknown error";
  }
}
static inline const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration: return "cudaErrorInvalidConfiguration";
    case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
    case cudaErrorMisalignedAddress: return "cudaErrorMisalignedAddress";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
    default: return "cudaErrorUnknown";
  }
}

static inline cudaError_t cudaGetLastError() { return static_cast<cudaError_t>(emulator::musadata_last_error(1)); }
static inline cudaError_t cudaPeekAtLastError() { return static_cast<cudaError_t>(emulator::musadata_last_error(0)); }

namespace emulator {
// Calls that wait for kernels report what those kernels did wrong; launch errors they leave alone.
inline cudaError_t finished() {
  const auto error = static_cast<cudaError_t>(musadata_last_error(0));
  const bool of_kernel =
      error == cudaErrorIllegalAddress || error == cudaErrorMisalignedAddress || error == cudaErrorLaunchFailure;
  return of_kernel ? error : cudaSuccess;
}
inline cudaError_t fail(cudaError_t error) {
  musadata_set_error(error);
  return error;
}
EMULATOR_UNSANITIZED inline cudaError_t copy(void* target, const void* source, size_t bytes, int kind) {
  if (bytes != 0 && (target == nullptr || source == nullptr)) {
    return fail(cudaErrorInvalidValue);
  }
  musadata_note_copy(target, source, bytes, kind == cudaMemcpyDeviceToHost);
  musadata_move(target, source, bytes);
  return finished();
}
}  // namespace emulator

static inline cudaError_t cudaDeviceSynchronize() { return emulator::musadata_await_device(), emulator::finished(); }
static inline cudaError_t cudaThreadSynchronize() { return cudaDeviceSynchronize(); }
static inline cudaError_t cudaDeviceReset() { return cudaSuccess; }

static inline cudaError_t cudaSetDevice(int device) {
  return device == 0 ? cudaSuccess : emulator::fail(cudaErrorInvalidDevice);
}
static inline cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
static inline cudaError_t cudaGetDeviceCount(int* count) { return *count = 1, cudaSuccess; }
static inline cudaError_t cudaSetDeviceFlags(unsigned) { return cudaSuccess; }
static inline cudaError_t cudaDeviceSetLimit(cudaLimit, size_t) { return cudaSuccess; }
static inline cudaError_t cudaCtxResetPersistingL2Cache() { return cudaSuccess; }
static inline cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
static inline cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig) { return cudaSuccess; }
static inline cudaError_t cudaRuntimeGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }
static inline cudaError_t cudaDriverGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }
static inline cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return *free = *total = size_t{8} << 30, cudaSuccess;
}

// ---- memory
static inline cudaError_t cudaMemcpyAsync(void* target, const void* source, size_t bytes, cudaMemcpyKind kind,
                                          cudaStream_t stream = nullptr) {
  emulator::musadata_queue(stream, "cudaMemcpyAsync");
  return emulator::copy(target, source, bytes, kind);
}
static inline cudaError_t cudaMemcpy(void* target, const void* source, size_t bytes, cudaMemcpyKind kind) {
  const cudaError_t error = cudaMemcpyAsync(target, source, bytes, kind);
  return emulator::musadata_await_stream(nullptr), error;
}
EMULATOR_UNSANITIZED static inline cudaError_t cudaMemcpy2DAsync(void* target, size_t target_pitch, const void* source,
                                                                 size_t source_pitch, size_t width, size_t height,
                                                                 cudaMemcpyKind kind, cudaStream_t stream = nullptr) {
  emulator::musadata_queue(stream, "cudaMemcpy2D");
  emulator::musadata_note_copy(target, source, width * height, kind == cudaMemcpyDeviceToHost);
  for (size_t row = 0; row < height; row++) {
    emulator::musadata_move(static_cast<char*>(target) + row * target_pitch,
                            static_cast<const char*>(source) + row * source_pitch, width);
  }
  return emulator::finished();
}
static inline cudaError_t cudaMemcpy2D(void* target, size_t target_pitch, const void* source, size_t source_pitch,
                                       size_t width, size_t height, cudaMemcpyKind kind) {
  const cudaError_t error = cudaMemcpy2DAsync(target, target_pitch, source, source_pitch, width, height, kind);
  return emulator::musadata_await_stream(nullptr), error;
}
EMULATOR_UNSANITIZED static inline cudaError_t cudaMemsetAsync(void* target, int value, size_t bytes,
                                                               cudaStream_t stream = nullptr) {
  emulator::musadata_queue(stream, "cudaMemsetAsync");
  emulator::musadata_fill(target, value, bytes);
  return emulator::finished();
}
static inline cudaError_t cudaMemset2DAsync(void* target, size_t pitch, int value, size_t width, size_t height,
                                            cudaStream_t stream = nullptr) {
  emulator::musadata_queue(stream, "cudaMemset2DAsync");
  for (size_t row = 0; row < height; row++) {
    emulator::musadata_fill(static_cast<char*>(target) + row * pitch, value, width);
  }
  return emulator::finished();
}
static inline cudaError_t cudaMemset2D(void* target, size_t pitch, int value, size_t width, size_t height) {
  return cudaMemset2DAsync(target, pitch, value, width, height);
}
static inline cudaError_t cudaMemset(void* target, int value, size_t bytes) {
  return cudaMemsetAsync(target, value, bytes);
}
template <class T>
static inline cudaError_t cudaMalloc(T** pointer, size_t bytes) {
  *pointer = bytes == 0 ? nullptr : static_cast<T*>(emulator::musadata_allocate(bytes));
  return bytes == 0 || *pointer != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}
template <class T>
static inline cudaError_t cudaMallocAsync(T** pointer, size_t bytes, cudaStream_t) {
  return cudaMalloc(pointer, bytes);
}
template <class T>
static inline cudaError_t cudaMallocManaged(T** pointer, size_t bytes, unsigned = 1) {
  *pointer = bytes == 0 ? nullptr : static_cast<T*>(emulator::musadata_allocate_managed(bytes));
  return bytes == 0 || *pointer != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}
static inline cudaError_t cudaFreeAsync(void* pointer, cudaStream_t) {
  return static_cast<cudaError_t>(emulator::musadata_release(pointer));
}
static inline cudaError_t cudaFree(void* pointer) {  // waits until nobody can use it any more
  return emulator::musadata_await_device(), cudaFreeAsync(pointer, nullptr);
}
template <class T>
static inline cudaError_t cudaMallocHost(T** pointer, size_t bytes, unsigned = 0) {
  return cudaMallocManaged(pointer, bytes);  // kernels may use pinned memory, too
}
template <class T>
static inline cudaError_t cudaHostAlloc(T** pointer, size_t bytes, unsigned) {
  return cudaMallocHost(pointer, bytes);
}
static inline cudaError_t cudaFreeHost(void* pointer) { return cudaFreeAsync(pointer, nullptr); }

// ---- __constant__ and __device__ variables
namespace emulator {
inline int announce_variable(const void* address, size_t bytes) {
  musadata_adopt_symbol(address, bytes);
  return 0;
}
}  // namespace emulator
template <class T>
static inline cudaError_t cudaMemcpyToSymbol(T& symbol, const void* source, size_t bytes, size_t offset = 0,
                                             cudaMemcpyKind = cudaMemcpyHostToDevice) {
  if (offset + bytes > sizeof(T)) {
    return emulator::fail(cudaErrorInvalidValue);
  }
  emulator::musadata_adopt_symbol(&symbol, sizeof(T));
  return emulator::copy((char*)&symbol + offset, source, bytes, cudaMemcpyHostToDevice);
}
template <class T>
static inline cudaError_t cudaMemcpyToSymbolAsync(T& symbol, const void* source, size_t bytes, size_t offset = 0,
                                                  cudaMemcpyKind kind = cudaMemcpyHostToDevice,
                                                  cudaStream_t stream = nullptr) {
  emulator::musadata_queue(stream, "cudaMemcpyToSymbolAsync");
  return cudaMemcpyToSymbol(symbol, source, bytes, offset, kind);
}
template <class T>
static inline cudaError_t cudaMemcpyFromSymbol(void* target, const T& symbol, size_t bytes, size_t offset = 0,
                                               cudaMemcpyKind kind = cudaMemcpyDeviceToHost) {
  if (offset + bytes > sizeof(T)) {
    return emulator::fail(cudaErrorInvalidValue);
  }
  emulator::musadata_adopt_symbol(&symbol, sizeof(T));
  return emulator::copy(target, (const char*)&symbol + offset, bytes, kind);
}
template <class T>
static inline cudaError_t cudaGetSymbolAddress(void** pointer, const T& symbol) {
  emulator::musadata_adopt_symbol(&symbol, sizeof(T));
  return *pointer = (void*)&symbol, cudaSuccess;
}
template <class T>
static inline cudaError_t cudaGetSymbolSize(size_t* bytes, const T&) {
  return *bytes = sizeof(T), cudaSuccess;
}

// ---- functions
namespace emulator {
// The kernel's name in the text of a call's arguments: "&ns::kernel<float, 4>, attribute, bytes" -> "ns::kernel".
inline void name_of_argument(const char* text, int position, char* name, size_t bytes) {
  size_t length = 0;
  for (int depth = 0; position > 0 && *text != '\0'; text++) {
    depth += (*text == '(' || *text == '[') - (*text == ')' || *text == ']');
    position -= *text == ',' && depth == 0;
  }
  for (bool again = true; again;) {
    text += strspn(text, "& (");
    const size_t type = strspn(text, "constvid *");  // (const void*)
    again = type > 0 && text[type] == ')' && text[type - 1] == '*';
    text += again ? type + 1 : 0;
    const bool is_cast = strncmp(text, "reinterpret_cast<", 17) == 0 || strncmp(text, "static_cast<", 12) == 0;
    if (is_cast && strchr(text, '>') != nullptr) {
      text = strchr(text, '>') + 1;
      again = true;
    }
  }
  while (length + 1 < bytes && (isalnum(static_cast<unsigned char>(*text)) || *text == '_' || *text == ':')) {
    name[length++] = *text++;
  }
  // A call hides the kernel: then the opt-in holds for every kernel, so that no honest one is refused.
  name[*text == '<' || *text == ',' || *text == ' ' || *text == ')' ? length : 0] = '\0';
}
template <class Function, class Attribute>
inline cudaError_t set_function_attribute(const char* text, Function&&, Attribute attribute, long long value) {
  if (static_cast<int>(attribute) == cudaFuncAttributeMaxDynamicSharedMemorySize) {
    if (value < 0 || value > 227 * 1024) {
      return fail(cudaErrorInvalidValue);
    }
    char name[256];
    name_of_argument(text, 0, name, sizeof name);
    musadata_allow_shared(name, static_cast<size_t>(value));
  }
  return cudaSuccess;
}
}  // namespace emulator
#define cudaFuncSetAttribute(...) emulator::set_function_attribute(#__VA_ARGS__, __VA_ARGS__)
template <class Function>
static inline cudaError_t cudaFuncSetCacheConfig(Function&&, cudaFuncCache) {
  return cudaSuccess;
}
template <class Function>
static inline cudaError_t cudaFuncSetSharedMemConfig(Function&&, cudaSharedMemConfig) {
  return cudaSuccess;
}
template <class Function>
static inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, Function&&) {
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  attributes->numRegs = 64;
  attributes->maxDynamicSharedSizeBytes = 48 * 1024;
  return cudaSuccess;
}
template <class Function>
static inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Function&&, int threads,
                                                                       size_t shared_bytes) {
  constexpr int kByRegisters = 1024;  // threads
  const int most = emulator::musadata_most_resident(threads, shared_bytes);
  return *blocks = std::min(most, std::max(1, kByRegisters / std::max(1, threads))), cudaSuccess;
}
template <class Function>
static inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, Function&& function,
                                                                                int threads, size_t shared_bytes,
                                                                                unsigned) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared_bytes);
}
template <class Function>
static inline cudaError_t cudaOccupancyMaxPotentialBlockSize(int* grid, int* block, Function&&, size_t = 0, int = 0) {
  return *grid = 264, *block = 256, cudaSuccess;
}


template <class Function, class SharedOf>
static inline cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMem(int* grid, int* block, Function&&, SharedOf,
                                                                        int = 0) {
  return *grid = 264, *block = 256, cudaSuccess;
}
template <class Function>
static inline cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, Function&&, int blocks, int) {
  return *bytes = blocks > 0 ? std::min<size_t>(227, 228 / blocks - 1) * 1024 : 0, cudaSuccess;
}

// ---- device properties: those of compute capability 9.0
static inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  strcpy(properties->name, "NVIDIA H100 80GB HBM3");
  properties->totalGlobalMem = size_t{8} << 30;
  properties->totalConstMem = 64 * 1024;
  properties->sharedMemPerBlock = 48 * 1024;
  properties->sharedMemPerBlockOptin = 227 * 1024;
  properties->sharedMemPerMultiprocessor = 228 * 1024;
  properties->multiProcessorCount = 132;
  properties->maxThreadsPerBlock = 1024;
  properties->warpSize = 32;
  properties->major = 9;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->maxBlocksPerMultiProcessor = 32;
  properties->regsPerBlock = properties->regsPerMultiprocessor = 65536;
  properties->l2CacheSize = 50 << 20;
  properties->concurrentKernels = properties->cooperativeLaunch = 1;
  const int largest_grid[] = {2147483647, 65535, 65535};
  const int largest_block[] = {1024, 1024, 64};
  memcpy(properties->maxGridSize, largest_grid, sizeof largest_grid);
  memcpy(properties->maxThreadsDim, largest_block, sizeof largest_block);
  return cudaSuccess;
}
static inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  cudaDeviceProp properties;
  cudaGetDeviceProperties(&properties, 0);
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: *value = 1024; break;
    case cudaDevAttrMaxBlockDimX: *value = 1024; break;
    case cudaDevAttrMaxGridDimX: *value = 2147483647; break;
    case cudaDevAttrMaxGridDimY: *value = 65535; break;
    case cudaDevAttrMaxGridDimZ: *value = 65535; break;
    case cudaDevAttrMaxBlockDimY: *value = 1024; break;
    case cudaDevAttrMaxBlockDimZ: *value = 64; break;
    case cudaDevAttrTotalConstantMemory: *value = 64 * 1024; break;
    case cudaDevAttrMaxBlocksPerMultiprocessor: *value = 32; break;
    case cudaDevAttrReservedSharedMemoryPerBlock: *value = 1024; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = 48 * 1024; break;
    case cudaDevAttrWarpSize: *value = 32; break;
    case cudaDevAttrMaxRegistersPerBlock: *value = 65536; break;
    case cudaDevAttrClockRate: *value = 1980000; break;
    case cudaDevAttrMultiProcessorCount: *value = properties.multiProcessorCount; break;
    case cudaDevAttrL2CacheSize: *value = properties.l2CacheSize; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = 2048; break;
    case cudaDevAttrComputeCapabilityMajor: *value = 9; break;
    case cudaDevAttrComputeCapabilityMinor: *value = 0; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = 228 * 1024; break;
    case cudaDevAttrMaxRegistersPerMultiprocessor: *value = 65536; break;
    case cudaDevAttrCooperativeLaunch: *value = 1; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = 227 * 1024; break;
  }
  return cudaSuccess;
}
static inline cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  *attributes = {2, 0, const_cast<void*>(pointer), nullptr};
  return cudaSuccess;
}

// ---- streams and events
static inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  const bool blocking = !(flags & cudaStreamNonBlocking);
  return *stream = static_cast<cudaStream_t>(emulator::musadata_open_stream(blocking)), cudaSuccess;
}
static inline cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, 0); }
static inline cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}
static inline cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  return *lowest = 0, *highest = -5, cudaSuccess;
}
static inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return emulator::musadata_close_stream(stream), cudaSuccess;
}
static inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return emulator::musadata_await_stream(stream), emulator::finished();
}
static inline cudaError_t cudaStreamQuery(cudaStream_t stream) { return cudaStreamSynchronize(stream); }
static inline cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned = 0) {
  return emulator::musadata_wait_event(stream, event), cudaSuccess;
}
static inline cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return *event = static_cast<cudaEvent_t>(emulator::musadata_open_event()), cudaSuccess;
}
static inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return cudaEventCreate(event); }
static inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return emulator::musadata_close_event(event), cudaSuccess;
}
static inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = nullptr) {
  return emulator::musadata_record_event(event, stream), cudaSuccess;
}
static inline cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return emulator::musadata_await_event(event), emulator::finished();
}
static inline cudaError_t cudaEventQuery(cudaEvent_t event) { return cudaEventSynchronize(event); }
static inline cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t) {
  return *milliseconds = 1.0f, cudaSuccess;
}
