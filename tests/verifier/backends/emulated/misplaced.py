"""Small programs in which something stands in the wrong execution space, or seems to; nvcc's verdicts are in a test."""

from string import Template

_KERNEL = Template("__global__ void k(float* x, int n) { int i = threadIdx.x; if (i < n) { $body } }\n")


def _in_kernel(body: str, before: str = "") -> str:
    return before + _KERNEL.substitute(body=body)


_HOST = "float f(float v) { return v * 2; }\n"
_TEMPLATE = "template <class T> T f(T v) { return v * 2; }\n"

REFUSED = {
    "function": _in_kernel("x[i] = f(x[i]);", _HOST),
    "static inline function": _in_kernel("x[i] = f(x[i]);", "static inline " + _HOST),
    "function with an attribute": _in_kernel("x[i] = f(x[i]);", "[[nodiscard]] " + _HOST),
    "template": _in_kernel("x[i] = f(x[i]);", _TEMPLATE),
    "template with arguments": _in_kernel("x[i] = f<float>(x[i]);", _TEMPLATE),
    "template in a template": _TEMPLATE
    + "template <class T> __global__ void k(T* x) { x[0] = f(x[0]); }\ntemplate __global__ void k<float>(float*);\n",
    "in a namespace": _in_kernel("x[i] = a::f(x[i]);", f"namespace a {{ {_HOST} }}\n"),
    "from a device function": "float h(float v) { return v; }\n__device__ float f(float v) { return h(v); }\n",
    "as a default argument": _in_kernel(
        "x[i] = f(x[i]);", "float h() { return 2; }\n__device__ float f(float v, float w = h()) { return v * w; }\n"
    ),
    "by its address": _in_kernel("float (*p)(float) = f; x[i] = p(x[i]);", _HOST),
    "call operator": _in_kernel(
        "S s; x[i] = s(x[i]);", "struct S { float operator()(float v) const { return v; } };\n"
    ),
    "method": _in_kernel("S s; x[i] = s.g(x[i]);", "struct S { float g(float v) { return v; } };\n"),
    "static method": _in_kernel("x[i] = S::g(x[i]);", "struct S { static float g(float v) { return v; } };\n"),
    "virtual method": _in_kernel("S s; x[i] = s.g();", "struct S { virtual float g() { return 1; } };\n"),
    "constructor": _in_kernel("S s(x[i]); x[i] = s.v;", "struct S { float v; S(float w) : v(w) {} };\n"),
    "operator": _in_kernel(
        "S s{x[i]}; x[i] = (s + s).v;", "struct S { float v; };\nS operator+(S a, S b) { return {a.v + b.v}; }\n"
    ),
    "conversion": _in_kernel("S s{x[i]}; x[i] = s;", "struct S { float v; operator float() const { return v; } };\n"),
    "functor that is handed over": "struct S { float operator()(float v) const { return v; } };\n"
    "template <class F> __global__ void k(float* x, F f) { x[0] = f(x[0]); }\n"
    "void go(float* x) { k<<<1, 1>>>(x, S()); }\n",
    "behind a macro": _in_kernel("x[i] = TWICE(x[i]);", _HOST + "#define TWICE(v) f(v)\n"),
    "variable": _in_kernel("x[i] = g;", "float g = 3;\n"),
    "constant array": _in_kernel("x[i] = g[i % 3];", "const float g[3] = {1, 2, 3};\n"),
    "constexpr array": _in_kernel("for (int j = 0; j < 3; ++j) x[i] += g[j];", "constexpr float g[3] = {1, 2, 3};\n"),
    "constexpr member array": _in_kernel(
        "x[i] = S::g[i % 3];", "struct S { static constexpr float g[3] = {1, 2, 3}; };\n"
    ),
    "throw": _in_kernel("if (x[i] > 3) throw 3;"),
    "try": _in_kernel("try { x[i] = 1; } catch (...) {}"),
    "length that is not constant": _in_kernel("float a[n]; a[0] = 1; x[i] = a[0];"),
    "C library": _in_kernel("x[i] = rand();"),
    "streams of the C++ library": _in_kernel("std::cout << x[i];"),
    "exit in a macro": _in_kernel("CHECK(x[i]);", "#define CHECK(v) if (!(v)) exit(1)\n"),
    "kernel called in a kernel": "__global__ void g(float* x) {}\n" + _in_kernel("g(x);"),
    "kernel called on the host": _in_kernel("x[i] = 1;") + "void h(float* x) { k(x, 3); }\n",
    "device function called on the host": "__device__ float f(float v) { return v; }\nfloat h() { return f(1.0f); }\n",
    "barrier on the host": "void h() { __syncthreads(); }\n",
    "shuffle on the host": "float h(float v) { return v + __shfl_down_sync(0xffffffff, v, 1); }\n",
    "atomic on the host": "struct S { int* v; int h() { return atomicAdd(v, 1); } };\n",
    "fast function on the host": "float h(float v) { auto f = [](float a) { return __expf(a); }; return f(v); }\n",
    "function for both that calls one of CUDA's": "__host__ __device__ float h(float v) { return __expf(v); }\n",
    "method for both that calls CUDA's": "struct S { __host__ __device__ int h(int* v) { return __ldg(v); } };\n",
    "function for both that calls the device's": "__device__ float f(float v) { return v; }\n"
    "__host__ __device__ float h(float v) { return f(v); }\n",
    "launch of no kernel": "void k(float* x) { x[threadIdx.x] = 1; }\nvoid go(float* x) { k<<<1, 1>>>(x); }\n",
    "kernel with a result": "__global__ int k(float* x) { return 1; }\n",
    "kernel with a deduced result": "__global__ auto k(float* x) { x[0] = 1; }\n",
    "kernel in a class": "struct S { __global__ void k(float* x) { x[0] = 1; } };\n",
    "static kernel in a class": "struct S { static __global__ void k(float* x) { x[0] = 1; } };\n",
    "kernel with an ellipsis": "__global__ void k(float* x, ...) { x[0] = 1; }\n",
    "kernel that takes an rvalue": "__global__ void k(int&& x) { x = 1; }\n",
    "constexpr kernel": "__global__ constexpr void k(float* x) { x[0] = 1; }\n",
    "kernel for the device": "__global__ __device__ void k(float* x) { x[0] = 1; }\n",
    "kernel for the host": "__host__ __global__ void k(float* x) { x[0] = 1; }\n",
}

ACCEPTED = {
    "macro for nvcc": _in_kernel(
        "x[i] = f(x[i]);", "#ifdef __NVCC__\n#define D __device__\n#else\n#define D\n#endif\nD " + _HOST
    ),
    "template that nobody uses": _TEMPLATE + "template <class T> __global__ void k(T* x) { x[0] = f(x[0]); }\n",
    "constexpr function": _in_kernel("x[i] = f(x[i]);", "constexpr " + _HOST),
    "static constexpr template": _in_kernel(
        "x[i] = f(x[i]);", "template <class T> static constexpr T f(T v) { return v * 2; }\n"
    ),
    "consteval function": _in_kernel("x[i] = f(3);", "consteval int f(int v) { return v * 2; }\n"),
    "default constructor": _in_kernel("S s; x[i] = s.v;", "struct S { float v = 1; S() = default; };\n"),
    "constructor for the host": "struct S { float v; S(float w) : v(w) {} __device__ float g() const { return v; } };\n"
    "__global__ void k(float* x, S s) { x[0] = s.g(); }\nvoid go(float* x) { k<<<1, 1>>>(x, S(2)); }\n",
    "local lambda": _in_kernel("auto f = [](float v) { return v * 2; }; x[i] = f(x[i]);"),
    "lambda with a host function's name": _in_kernel(
        "auto f = [](float v) { return v; }; x[i] = f(x[i]);", "float f(float v) { return v; }\n"
    ),
    "library that is constexpr": _in_kernel(
        "float a = 1; std::swap(a, x[i]); x[i] = std::max(std::clamp(a, 0.0f, 1.0f), x[i]);"
    ),
    "mathematics": _in_kernel("x[i] = std::fmod(std::tgamma(x[i]), 2.0f) + erff(x[i]) + std::isnan(x[i]) + abs(i);"),
    "numeric limits": _in_kernel("x[i] = std::numeric_limits<float>::infinity();"),
    "constant number": _in_kernel("x[i] = g + S::N + S::f;", "const float g = 3;\n"
    "struct S { static const int N = 3; static constexpr float f = 2.0f; };\n"),
    "value of a constexpr array": _in_kernel("constexpr int v = g[1]; x[i] = v;", "constexpr int g[3] = {1, 2, 3};\n"),
    "array of the kernel": _in_kernel("static constexpr float g[3] = {1, 2, 3}; x[i] = g[i % 3];"),
    "array of the device": _in_kernel("x[i] = g[i % 3] + h[i % 2];",
    "__constant__ float g[3] = {1, 2, 3};\n__device__ const float h[2] = {1, 2};\n"),
    "size of a host's result": _in_kernel("x[i] = sizeof(f(x[i]));", _HOST),
    "type of a host's result": _in_kernel("decltype(f(1.0f)) a = 2; x[i] = a;", _HOST),
    "macro": _in_kernel("x[i] = f(x[i]);", "#define f(v) ((v) * 2)\n"),
    "function for both": _in_kernel("x[i] = f(x[i]);", "__host__ __device__ " + _HOST)
    + "float go() { return f(2.0f); }\n",
    "both, each with its own": _in_kernel("x[i] = f(x[i]);", "float h(float v) { return v; }\n"
    "__host__ __device__ float f(float v) {\n#ifdef __CUDA_ARCH__\n  return v;\n#else\n  return h(v);\n#endif\n}\n"),
    "overloads": _in_kernel("x[i] = f(3);", _HOST + "__device__ int f(int v) { return v; }\n"),
    "declared for the device later": "float f(float v);\n" + _in_kernel("x[i] = f(x[i]);")
    + "__device__ float f(float v) { return v; }\n",
    "assertion": _in_kernel("assert(x[i] > 0); printf(\"%d\", i);"),
    "memory of the device's heap": _in_kernel("float* p = new float[3]; p[0] = 2; x[i] = p[0]; delete[] p;"),
    "template for both that calls the device's": "__device__ float f(float v) { return v; }\n"
    "template <class T> __host__ __device__ T h(T v) { return f(v) + __expf(v); }\n" + _in_kernel("x[i] = h(x[i]);"),
    "both, one with CUDA's": "__host__ __device__ float h(float v) {\n#ifdef __CUDA_ARCH__\n  return __expf(v);\n"
    "#else\n  return expf(v);\n#endif\n}\n",
    "mathematics on both sides":
    "__host__ __device__ float h(float v) { return rsqrtf(v) + erfinvf(v) + max(v, 1.0f); }\n"
    "float f(float v) { return h(v) + rsqrtf(v) + __half2float(__float2half(v)); }\n",
    "own function on the host": "inline float atomicMax(float* a, float b) { return *a = b; }\n"
    "float h(float v) { return atomicMax(&v, v); }\n",
    "host template that nobody uses": "template <class T> T h(T v) { return __shfl_down_sync(0xffffffff, v, 1); }\n",
    "recursion": _in_kernel("x[i] = f(3);", "__device__ int f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); }\n"),
    "kernel with a pack of arguments":
    "template <class... A> __global__ void k(float* x, A... f) { x[0] = (f + ...); }\n"
    "void go(float* x) { k<<<1, 1>>>(x, 1, 2.0f); }\n",
    "kernel with a trailing result": "__global__ auto k(float* x) -> void { x[0] = 1; }\n",
    "static inline kernel": "static __global__ inline void k(float* x) { x[0] = 1; }\n",
    "kernel of a friend": "template <class T> struct S { T v; };\n"
    "template <class T> __global__ void k(S<T> x, const bool f = 1 && 1) { x.v = f; }\n",
    "launch through a variable": _in_kernel("x[i] = 1;")
    + "void go(float* x) { auto kernel = k; kernel<<<1, 1>>>(x, 1); }\n",
    "lambda for the device": "template <class F> __global__ void k(int n, F f) { f(n); }\n"
    "__device__ float h(float v) { return v; }\n"
    "void go(float* x) { k<<<1, 1>>>(1, [=] __device__(int i) { atomicAdd(x, __expf(h(x[i]))); }); }\n",
}  # fmt: skip
