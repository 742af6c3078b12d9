"""Kernels with one mistake each, and the mechanism that must see it."""

from dataclasses import dataclass
from string import Template

ELEMENTWISE = """
torch::Tensor run(torch::Tensor x) {
  auto y = torch::empty_like(x);
  int n = x.numel();
  kernel<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
  return y;
}
"""
ROWWISE = """
torch::Tensor run(torch::Tensor x) {
  auto y = torch::empty({x.size(0)}, x.options());
  kernel<<<x.size(0), 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), (int)x.size(1));
  return y;
}
"""
REDUCTION = Template("""
__global__ void kernel(const float* x, float* y, int n) {
  __shared__ float s[256];
  int t = threadIdx.x;
  float sum = 0;
  for (int i = t; i < n; i += 256) sum += x[blockIdx.x * n + i];
  s[t] = sum;
  $after_load
  for (int o = 128; o > 0; o >>= 1) {
    if (t < o) s[t] += s[t + o];
    $after_step
  }
  if (t == 0) y[blockIdx.x] = s[0];
}
""")


GRIDWISE = """
torch::Tensor run(torch::Tensor x) {
  auto y = torch::empty_like(x), parts = torch::empty({8}, x.options());
  float *from = x.data_ptr<float>(), *to = y.data_ptr<float>(), *between = parts.data_ptr<float>();
  int n = x.numel();
  void* arguments[] = {&from, &to, &between, &n};
  LAUNCH((void*)kernel, dim3(8), dim3(64), arguments, 0, nullptr);
  return y;
}
"""


def gridwise(barrier: str) -> str:
    """Every block leaves a number for all others to read."""
    return f"""
#include <cooperative_groups.h>
__global__ void kernel(const float* x, float* y, float* parts, int n) {{
  auto grid = cooperative_groups::this_grid();
  if (threadIdx.x == 0) parts[blockIdx.x] = blockIdx.x;
  {barrier}
  float sum = 0;
  for (int b = 0; b < 8; b++) sum += parts[b];
  for (int i = grid.thread_rank(); i < n; i += grid.size()) y[i] = x[i] * sum;
}}
"""


@dataclass(frozen=True)
class Bug:
    """Attributes:
    kernel, host: the CUDA source.
    reference: what it should compute, as an expression of x.
    shape: of x.
    fault: the kind of fault that a plain run raises; "" if it raises none.
    wrong_order: an order of threads in which the result is wrong; "" if it never is.
    reports: kinds of report of a sanitised run, of which at least one must appear.
    launch_error: CUDA's number for the refused launch.
    """

    kernel: str
    host: str
    reference: str
    shape: tuple[int, ...]
    fault: str = ""
    wrong_order: str = ""
    reports: tuple[str, ...] = ()
    launch_error: int = 0

    def source(self) -> str:
        return "#include <torch/extension.h>\n#include <cuda_runtime.h>\n" + self.kernel + self.host


def elementwise(body: str) -> str:
    return f"""
__global__ void kernel(const float* x, float* y, int n) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  {body}
}}
"""


BUGS = {
    "no bounds check": Bug(
        elementwise("y[i] = x[i] * 2;"),
        ELEMENTWISE,
        "x * 2",
        (1000,),
        fault="illegal_access",
        reports=("out_of_bounds",),
    ),
    "read one past the end": Bug(
        elementwise("if (i < n) y[i] = x[i + 1] > 1e30f ? 0.f : x[i];"),
        ELEMENTWISE,
        "x * 1",
        (1001,),
        reports=("out_of_bounds",),
    ),
    "write one past the end": Bug(
        elementwise("if (i < n) { y[i + 1] = 0; y[i] = x[i]; }"),
        ELEMENTWISE,
        "x * 1",
        (1001,),
        fault="out_of_bounds_write",
        reports=("out_of_bounds",),
    ),
    "no barrier after loading": Bug(
        REDUCTION.substitute(after_load="", after_step="__syncthreads();"),
        ROWWISE,
        "x.sum(1)",
        (8, 1000),
        wrong_order="forward",
        reports=("race_in_block", "uninitialised_shared"),
    ),
    "no barrier in the loop": Bug(
        REDUCTION.substitute(after_load="__syncthreads();", after_step=""),
        ROWWISE,
        "x.sum(1)",
        (8, 1000),
        wrong_order="forward",
        reports=("race_in_block",),
    ),
    "uninitialised shared memory": Bug(
        elementwise("""
  __shared__ float s[64];
  if (threadIdx.x == 0) for (int k = 0; k < 32; k++) s[k] = 0;
  __syncthreads();
  if (i < n) y[i] = x[i] + s[40] * 0;"""),
        ELEMENTWISE,
        "x * 1",
        (1000,),
        wrong_order="forward",
        reports=("uninitialised_shared",),
    ),
    "overflow of static shared memory": Bug(
        elementwise("""
  __shared__ float s[255];
  s[threadIdx.x] = i < n ? x[i] : 0;
  __syncthreads();
  if (i < n) y[i] = s[threadIdx.x];"""),
        ELEMENTWISE,
        "x * 1",
        (1000,),
        fault="shared_overflow",
    ),
    "read far outside of shared memory": Bug(
        elementwise("""
  __shared__ float s[64];
  if (threadIdx.x < 64) s[threadIdx.x] = 1.0f;
  __syncthreads();
  if (i < n) y[i] = x[i] + s[2 * threadIdx.x] * 0;"""),
        ELEMENTWISE,
        "x * 1",
        (1000,),
        reports=("shared_overflow",),
    ),
    "overflow of dynamic shared memory": Bug(
        elementwise("""
  extern __shared__ float s[];
  s[threadIdx.x] = i < n ? x[i] : 0;
  __syncthreads();
  if (i < n) y[i] = s[threadIdx.x];"""),
        ELEMENTWISE.replace("256>>>", "256, 255 * sizeof(float)>>>").replace("255 *", "252 *"),
        "x * 1",
        (1000,),
        fault="illegal_access",
    ),
    "barrier in a branch": Bug(
        elementwise("""
  __shared__ float s[256];
  if (threadIdx.x < 100) {
    s[threadIdx.x] = 1;
    __syncthreads();
  } else if (threadIdx.x > 200) {
    __syncthreads();
    s[threadIdx.x] = 2;
    __syncthreads();
  }
  if (i < n) y[i] = x[i];"""),
        ELEMENTWISE,
        "x * 1",
        (1000,),
        fault="barrier_divergence",
    ),
    "shuffle in a branch": Bug(
        elementwise("""
  float v = i < n ? x[i] : 0;
  if (threadIdx.x % 32 < 16) v += 0 * __shfl_down_sync(0xffffffffu, v, 8);
  else __syncthreads();
  if (i < n) y[i] = v;"""),
        ELEMENTWISE,
        "x * 1",
        (1000,),
        fault="deadlock",
    ),
    "no wait at a barrier in memory": Bug(
        "#include <cuda/barrier>\n"
        + elementwise("""
  __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
  __shared__ float s[256];
  if (threadIdx.x == 0) init(&barrier, blockDim.x);
  __syncthreads();
  s[threadIdx.x] = i < n ? x[i] : 0;
  auto token = barrier.arrive();
  float other = s[(threadIdx.x + 32) % 256];
  barrier.wait(std::move(token));
  if (i < n) y[i] = x[i] + other * 0;"""),
        ELEMENTWISE,
        "x * 1",
        (1024,),
        reports=("race_in_block", "uninitialised_shared"),
    ),
    "no barrier of the grid": Bug(
        gridwise("__syncthreads();"),
        GRIDWISE.replace("LAUNCH", "cudaLaunchCooperativeKernel"),
        "x * 28",
        (1000,),
        wrong_order="forward",
        reports=("race_between_blocks",),
    ),
    "barrier of a grid that is not launched as one": Bug(
        gridwise("grid.sync();"), GRIDWISE.replace("LAUNCH", "cudaLaunchKernel"), "x * 28", (1000,), fault="trap"
    ),
    "block that leaves before the grid's barrier": Bug(
        gridwise("if (blockIdx.x == 3) return; grid.sync();"),
        GRIDWISE.replace("LAUNCH", "cudaLaunchCooperativeKernel"),
        "x * 28",
        (1000,),
        fault="deadlock",
    ),
    "barrier of the grid in a branch": Bug(
        gridwise("if (threadIdx.x < 32) grid.sync(); else __syncthreads();"),
        GRIDWISE.replace("LAUNCH", "cudaLaunchCooperativeKernel"),
        "x * 28",
        (1000,),
        fault="barrier_divergence",
    ),
    "more blocks than can wait for each other": Bug(
        gridwise("grid.sync();"),
        GRIDWISE.replace("LAUNCH", "cudaLaunchCooperativeKernel").replace("dim3(8)", "dim3(8000)"),
        "x * 28",
        (1000,),
        launch_error=720,
    ),
    "unwritten output": Bug(
        elementwise("if (i < n - 1) y[i] = x[i];"), ELEMENTWISE, "x * 1", (1000,), wrong_order="forward"
    ),
    "no barrier between tiles": Bug(
        """
#define TILE 16
__global__ void kernel(const float* A, float* C, int n) {
  __shared__ float a[TILE][TILE], b[TILE][TILE];
  int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
  float sum = 0;
  for (int t = 0; t < n / TILE; t++) {
    a[threadIdx.y][threadIdx.x] = A[row * n + t * TILE + threadIdx.x];
    b[threadIdx.y][threadIdx.x] = A[(t * TILE + threadIdx.y) * n + column];
    __syncthreads();
    for (int k = 0; k < TILE; k++) sum += a[threadIdx.y][k] * b[k][threadIdx.x];
  }
  C[row * n + column] = sum;
}
""",
        """
torch::Tensor run(torch::Tensor x) {
  int n = x.size(0);
  auto y = torch::empty_like(x);
  kernel<<<dim3(n / 16, n / 16), dim3(16, 16)>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
  return y;
}
""",
        "x @ x",
        (64, 64),
        wrong_order="forward",
        reports=("race_in_block",),
    ),
    "no barrier after storing a fragment": Bug(
        """
#include <mma.h>
using namespace nvcuda;
__global__ void kernel(const float* x, float* y, int n) {
  __shared__ float tile[256];
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::load_matrix_sync(sum, x, 16, wmma::mem_row_major);
  for (float& value : sum.x) value *= 2;
  wmma::store_matrix_sync(tile, sum, 16, wmma::mem_row_major);
  for (int i = threadIdx.x; i < 256; i += 32) y[i] = tile[i];
}
""",
        ELEMENTWISE.replace("(n + 255) / 256, 256", "1, 32"),
        "x * 2",
        (16, 16),
        wrong_order="forward",
        reports=("race_in_block", "uninitialised_shared"),
    ),
    "race between blocks": Bug(
        elementwise("if (i < n) y[0] += x[i];"),
        ELEMENTWISE.replace("torch::empty_like(x)", "torch::zeros({1}, x.options())"),
        "x.sum().view(1)",
        (1000,),
        reports=("race_between_blocks",),
    ),
    "too many threads in a block": Bug(
        elementwise("if (i < n) y[i] = x[i];"),
        ELEMENTWISE.replace("(n + 255) / 256, 256", "1, 2048"),
        "x * 1",
        (1000,),
        wrong_order="forward",
        launch_error=9,
    ),
    "pointer to host memory": Bug(
        elementwise("if (i < n) y[i] = x[i];"),
        ELEMENTWISE.replace("int n", "auto host = x.cpu(); int n").replace("(x.data_ptr", "(host.data_ptr"),
        "x * 1",
        (1000,),
        reports=("host_memory",),
    ),
    "more shared memory than asked for": Bug(
        elementwise("extern __shared__ float s[]; s[threadIdx.x] = 0; if (i < n) y[i] = x[i];"),
        ELEMENTWISE.replace("256>>>", "256, 60000>>>"),
        "x * 1",
        (1000,),
        wrong_order="forward",
        launch_error=1,
    ),
    "null pointer": Bug(
        elementwise("float* nowhere = nullptr; if (i < n) y[i] = x[i] + nowhere[i];"),
        ELEMENTWISE,
        "x * 1",
        (1000,),
        fault="illegal_access",
        reports=("host_memory",),
    ),
}
