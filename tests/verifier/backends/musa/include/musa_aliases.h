// MUSA's names as CUDA's, so that MUSA sources compile wherever CUDA sources do. The names are those that torch_musa's
// own sources use, written down independently of the port: what the port calls otherwise does not compile.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

// the runtime
#define musaDeviceGetAttribute cudaDeviceGetAttribute
#define musaDeviceProp cudaDeviceProp
#define musaDeviceSynchronize cudaDeviceSynchronize
#define musaDevAttrMaxThreadsPerBlock cudaDevAttrMaxThreadsPerBlock
#define musaDevAttrMultiProcessorCount cudaDevAttrMultiProcessorCount
#define musaDevAttrWarpSize cudaDevAttrWarpSize
#define musaError_t cudaError_t
#define musaErrorInvalidValue cudaErrorInvalidValue
#define musaErrorMemoryAllocation cudaErrorMemoryAllocation
#define musaErrorNotReady cudaErrorNotReady
#define musaEvent_t cudaEvent_t
#define musaEventCreate cudaEventCreate
#define musaEventCreateWithFlags cudaEventCreateWithFlags
#define musaEventDestroy cudaEventDestroy
#define musaEventDisableTiming cudaEventDisableTiming
#define musaEventElapsedTime cudaEventElapsedTime
#define musaEventQuery cudaEventQuery
#define musaEventRecord cudaEventRecord
#define musaEventSynchronize cudaEventSynchronize
#define musaFree cudaFree
#define musaFreeAsync cudaFreeAsync
#define musaFreeHost cudaFreeHost
#define musaFuncAttributeMaxDynamicSharedMemorySize cudaFuncAttributeMaxDynamicSharedMemorySize
#define musaFuncCachePreferL1 cudaFuncCachePreferL1
#define musaFuncSetAttribute cudaFuncSetAttribute
#define musaFuncSetCacheConfig cudaFuncSetCacheConfig
#define musaGetDevice cudaGetDevice
#define musaGetDeviceCount cudaGetDeviceCount
#define musaGetDeviceProperties cudaGetDeviceProperties
#define musaGetErrorString cudaGetErrorString
#define musaGetLastError cudaGetLastError
#define musaLaunchCooperativeKernel cudaLaunchCooperativeKernel
#define musaLaunchKernel cudaLaunchKernel
#define musaMalloc cudaMalloc
#define musaMallocAsync cudaMallocAsync
#define musaMallocHost cudaMallocHost
#define musaMallocManaged cudaMallocManaged
#define musaMemcpy cudaMemcpy
#define musaMemcpyAsync cudaMemcpyAsync
#define musaMemcpyDeviceToDevice cudaMemcpyDeviceToDevice
#define musaMemcpyDeviceToHost cudaMemcpyDeviceToHost
#define musaMemcpyHostToDevice cudaMemcpyHostToDevice
#define musaMemcpyToSymbol cudaMemcpyToSymbol
#define musaMemcpyToSymbolAsync cudaMemcpyToSymbolAsync
#define musaMemset cudaMemset
#define musaMemsetAsync cudaMemsetAsync
#define musaOccupancyMaxActiveBlocksPerMultiprocessor cudaOccupancyMaxActiveBlocksPerMultiprocessor
#define musaPeekAtLastError cudaPeekAtLastError
#define musaSetDevice cudaSetDevice
#define musaStream_t cudaStream_t
#define musaStreamCreate cudaStreamCreate
#define musaStreamCreateWithFlags cudaStreamCreateWithFlags
#define musaStreamDestroy cudaStreamDestroy
#define musaStreamNonBlocking cudaStreamNonBlocking
#define musaStreamSynchronize cudaStreamSynchronize
#define musaStreamWaitEvent cudaStreamWaitEvent
#define musaSuccess cudaSuccess

// the compiler and its types
#define __MUSA_ARCH__ __CUDA_ARCH__
#define __mt_bfloat16 __nv_bfloat16
#define __mt_bfloat162 __nv_bfloat162
#define MUSART_INF_F CUDART_INF_F
#define MUSART_NAN_F CUDART_NAN_F
#define MUSART_PI_F CUDART_PI_F

// PyTorch
#define is_privateuseone is_cuda
#define kPrivateUse1 kCUDA
#define PrivateUse1 CUDA
#define getCurrentMUSAStream getCurrentCUDAStream
#define getDefaultMUSAStream getDefaultCUDAStream
#define setCurrentMUSAStream setCurrentCUDAStream
#define MUSAStream CUDAStream
#define MUSAGuard CUDAGuard
#define OptionalMUSAGuard OptionalCUDAGuard
#define MUSAStreamGuard CUDAStreamGuard
#define OptionalMUSAStreamGuard OptionalCUDAStreamGuard
#define C10_MUSA_CHECK C10_CUDA_CHECK
#define C10_MUSA_KERNEL_LAUNCH_CHECK C10_CUDA_KERNEL_LAUNCH_CHECK
#define AT_MUSA_CHECK AT_CUDA_CHECK
#define MUSA_KERNEL_LOOP CUDA_KERNEL_LOOP
#define MUSA_1D_KERNEL_LOOP CUDA_1D_KERNEL_LOOP

// what the emulator has none of, and the objects that are linked with candidates need
#define musaMemcpyKind cudaMemcpyKind
enum { musaMemoryTypeDevice = 2 };
struct musaPointerAttributes {
  int type;
};
static inline cudaError_t musaPointerGetAttributes(musaPointerAttributes*, const void*) { return cudaSuccess; }
struct musaMemcpy3DParms {
  void* dstArray;
  struct {
    void* ptr;
  } dstPtr;
  struct {
    size_t width, height, depth;
  } extent;
};

namespace c10 {
namespace cuda {}
namespace musa = cuda;
}  // namespace c10
namespace at {
namespace cuda {}
namespace musa = cuda;
}  // namespace at
