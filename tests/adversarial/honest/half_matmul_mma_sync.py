# task: half_matmul
# style: tensor cores by inline PTX: cp.async with zero fill into two buffers, ldmatrix (also .trans), mma.sync m16n8k16
# musa: inline PTX
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_fp16.h>
#include <stdint.h>

constexpr int BM = 64, BN = 32, BK = 32, PAD = 8;

__device__ __forceinline__ uint32_t smem_addr(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }
__device__ __forceinline__ void cp_async16(void* dst, const void* src, int valid) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" :: "r"(smem_addr(dst)), "l"(src), "r"(valid));
}
#define CP_ASYNC_COMMIT() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT(N) asm volatile("cp.async.wait_group %0;\n" :: "n"(N))
#define LDMATRIX_X4(r0, r1, r2, r3, addr) \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n" : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(addr))
#define LDMATRIX_X2_T(r0, r1, addr) \
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];\n" : "=r"(r0), "=r"(r1) : "r"(addr))

// rows and columns that are multiples of 8 only: 16-byte copies never straddle the edge
__device__ void load_tile(__half* dst, const __half* src, int rows, int cols, int row0, int col0, int height, int width, int pitch) {
    const int per_row = width / 8;
    for (int i = threadIdx.x; i < height * per_row; i += blockDim.x) {
        const int r = i / per_row, c = i % per_row * 8;
        const bool ok = row0 + r < rows && col0 + c < cols;
        const __half* from = ok ? src + (size_t)(row0 + r) * cols + col0 + c : src;
        cp_async16(dst + r * pitch + c, from, ok ? 16 : 0);
    }
}

__global__ void __launch_bounds__(128) hgemm(const __half* __restrict__ A, const __half* __restrict__ B, __half* __restrict__ C, int M, int N, int K) {
    __shared__ __align__(16) __half As[2][BM][BK + PAD];
    __shared__ __align__(16) __half Bs[2][BK][BN + PAD];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
    float acc[BN / 8][4] = {};
    const int tiles = (K + BK - 1) / BK;

    load_tile(&As[0][0][0], A, M, K, m0, 0, BM, BK, BK + PAD);
    load_tile(&Bs[0][0][0], B, K, N, 0, n0, BK, BN, BN + PAD);
    CP_ASYNC_COMMIT();
    for (int t = 0; t < tiles; ++t) {
        const int cur = t & 1;
        if (t + 1 < tiles) {
            load_tile(&As[cur ^ 1][0][0], A, M, K, m0, (t + 1) * BK, BM, BK, BK + PAD);
            load_tile(&Bs[cur ^ 1][0][0], B, K, N, (t + 1) * BK, n0, BK, BN, BN + PAD);
            CP_ASYNC_COMMIT();
            CP_ASYNC_WAIT(1);
        } else {
            CP_ASYNC_WAIT(0);
        }
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < BK; k += 16) {
            uint32_t a[4];
            LDMATRIX_X4(a[0], a[1], a[2], a[3], smem_addr(&As[cur][warp * 16 + lane % 16][k + lane / 16 * 8]));
            #pragma unroll
            for (int j = 0; j < BN / 8; ++j) {
                uint32_t b[2];
                LDMATRIX_X2_T(b[0], b[1], smem_addr(&Bs[cur][k + lane % 16][j * 8]));
                asm volatile(
                    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                    "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                    : "+f"(acc[j][0]), "+f"(acc[j][1]), "+f"(acc[j][2]), "+f"(acc[j][3])
                    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
            }
        }
        __syncthreads();
    }
    const int row = m0 + warp * 16 + lane / 4;
    for (int j = 0; j < BN / 8; ++j) {
        const int col = n0 + j * 8 + lane % 4 * 2;
        if (col >= N) continue;
        if (row < M) *reinterpret_cast<__half2*>(&C[(size_t)row * N + col]) = __floats2half2_rn(acc[j][0], acc[j][1]);
        if (row + 8 < M) *reinterpret_cast<__half2*>(&C[(size_t)(row + 8) * N + col]) = __floats2half2_rn(acc[j][2], acc[j][3]);
    }
}

// copies into a matrix whose sides are multiples of 8
__global__ void pad(const __half* src, __half* dst, int rows, int cols, int padded_rows, int padded_cols) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < padded_rows * padded_cols; i += gridDim.x * blockDim.x) {
        const int r = i / padded_cols, c = i % padded_cols;
        dst[i] = r < rows && c < cols ? src[r * cols + c] : __float2half(0.0f);
    }
}
__global__ void unpad(const __half* src, __half* dst, int rows, int cols, int padded_cols) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < rows * cols; i += gridDim.x * blockDim.x)
        dst[i] = src[i / cols * padded_cols + i % cols];
}

static const __half* ptr(const torch::Tensor& t) { return reinterpret_cast<const __half*>(t.data_ptr<at::Half>()); }
static __half* mut(torch::Tensor& t) { return reinterpret_cast<__half*>(t.data_ptr<at::Half>()); }
static int up(int n) { return (n + 7) / 8 * 8; }

torch::Tensor hgemm_cuda(torch::Tensor a, torch::Tensor b) {
    a = a.contiguous();
    b = b.contiguous();
    const int M = a.size(0), K = a.size(1), N = b.size(1), Np = up(N), Kp = up(K);
    auto pa = torch::empty({M, Kp}, a.options()), pb = torch::empty({Kp, Np}, a.options()), pc = torch::empty({M, Np}, a.options());
    auto c = torch::empty({M, N}, a.options());
    pad<<<64, 256>>>(ptr(a), mut(pa), M, K, M, Kp);
    pad<<<64, 256>>>(ptr(b), mut(pb), K, N, Kp, Np);
    hgemm<<<dim3((Np + BN - 1) / BN, (M + BM - 1) / BM), 128>>>(ptr(pa), ptr(pb), mut(pc), M, Np, Kp);
    unpad<<<64, 256>>>(ptr(pc), mut(c), M, N, Np);
    return c;
}
"""
module = load_inline(name="hgemm_mma", cpp_sources="torch::Tensor hgemm_cuda(torch::Tensor a, torch::Tensor b);", cuda_sources=source, functions=["hgemm_cuda"], extra_cuda_cflags=["-O3", "-arch=sm_80"])


class ModelNew(nn.Module):
    def forward(self, a, b):
        return module.hgemm_cuda(a, b)
