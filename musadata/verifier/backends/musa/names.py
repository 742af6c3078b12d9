"""CUDA's names on MUSA, and the names that have no counterpart there: data for `port`.

Sources: the mapping tables that come with torch_musa (`torch_musa/utils/mapping`) and torchada; where they differ, what
torch_musa's own headers declare. Names that are not here are the same on both sides: `<<<>>>`, built-in variables,
shuffles, atomics, half intrinsics, cooperative groups.
"""

import re

# Whole names. CUDA has several words for some types; MUSA has one.
NAMES = {
    "__nv_bfloat16": "__mt_bfloat16",
    "__nv_bfloat162": "__mt_bfloat162",
    "nv_bfloat16": "__mt_bfloat16",
    "nv_bfloat162": "__mt_bfloat162",
    "__nv_half": "__half",
    "__nv_half2": "__half2",
    "nv_half": "__half",
    "nv_half2": "__half2",
    "__CUDA_ARCH__": "__MUSA_ARCH__",
    "__CUDACC__": "__MUSACC__",
    "kCUDA": "kPrivateUse1",
    "is_cuda": "is_privateuseone",
    "make_cuComplex": "make_muComplex",
    "make_cuFloatComplex": "make_muFloatComplex",
    "make_cuDoubleComplex": "make_muDoubleComplex",
    "cuComplex": "muComplex",
    "cuFloatComplex": "muFloatComplex",
    "cuDoubleComplex": "muDoubleComplex",
}

# Names by their form, the first that fits. PyTorch's names hold CUDA in the middle; only the listed ones are PyTorch's.
FORMS = (
    (re.compile(r"cuda([A-Z]\w*)"), r"musa\1"),  # the runtime
    (re.compile(r"cu(blas|dnn|rand|fft|sparse|solver)(\w*)"), r"mu\1\2"),
    (re.compile(r"CU(BLAS|DNN|RAND|FFT|SPARSE|SOLVER)(_\w*)"), r"MU\1\2"),
    (re.compile(r"nccl([A-Z]\w*)"), r"mccl\1"),
    (re.compile(r"cu([A-Z]\w*)"), r"mu\1"),  # the driver
    (re.compile(r"CU([a-z]\w*)"), r"MU\1"),
    (re.compile(r"CU_(\w+)"), r"MU_\1"),
    (re.compile(r"CUDA_([RC]_\d\w*|SUCCESS|ERROR_\w+)"), r"MUSA_\1"),
    (re.compile(r"CUDART_((?!VERSION)\w+)"), r"MUSART_\1"),
    (re.compile(r"__CUDA_((?:NO|FP|BF)\w*)"), r"__MUSA_\1"),
    (re.compile(r"__nv_fp8(\w*)"), r"__mt_fp8\1"),
    (re.compile(r"__NV_(E4M3|E5M2|SATFINITE|NOSAT)"), r"__MT_\1"),
    (re.compile(r"(C10|AT)_CUDA_(CHECK|CHECK_WARN|KERNEL_LAUNCH_CHECK|ERROR_HANDLED|IGNORE_ERROR)"), r"\1_MUSA_\2"),
    (re.compile(r"CUDA_(KERNEL_LOOP|KERNEL_LOOP_TYPE|1D_KERNEL_LOOP|2D_KERNEL_LOOP|NUM_THREADS)"), r"MUSA_\1"),
    (re.compile(r"(Optional|)CUDA(Stream|Guard|StreamGuard|MultiStreamGuard|Event)"), r"\1MUSA\2"),
    (re.compile(r"CUDA(CachingAllocator|GeneratorImpl)"), r"MUSA\1"),
    (re.compile(r"(get|set)(Current|Default)CUDA(Stream|Generator|BlasHandle)"), r"\1\2MUSA\3"),
)

# Namespaces that hold a `cuda`; the word is somebody else's everywhere else.
CUDA_NAMESPACE_OF = frozenset({"at", "c10", "torch"})
# Enumerations of PyTorch with a member CUDA.
CUDA_MEMBER_OF = frozenset({"DeviceType", "DispatchKey", "Backend"})
DEVICE_KEY = "PrivateUse1"

# Headers by name; the rest by HEADER_FORMS.
HEADERS = {
    "cuda.h": "musa.h",
    "cuComplex.h": "muComplex.h",
    "c10/cuda/CUDAStream.h": "torch_musa/csrc/core/MUSAStream.h",
    "c10/cuda/CUDAGuard.h": "torch_musa/csrc/core/MUSAGuard.h",
    "c10/cuda/CUDAException.h": "torch_musa/csrc/core/MUSAException.h",
    "c10/cuda/CUDAFunctions.h": "torch_musa/csrc/core/MUSAFunctions.h",
    "c10/cuda/CUDACachingAllocator.h": "torch_musa/csrc/core/MUSACachingAllocator.h",
    "ATen/cuda/CUDAEvent.h": "torch_musa/csrc/core/MUSAEvent.h",
    "ATen/cuda/CUDAContext.h": "torch_musa/csrc/aten/musa/MUSAContext.h",
    "ATen/cuda/CUDAContextLight.h": "torch_musa/csrc/aten/musa/MUSAContextLight.h",
    "ATen/cuda/CUDAGeneratorImpl.h": "torch_musa/csrc/aten/musa/MUSAGeneratorImpl.h",
    "ATen/cuda/Exceptions.h": "torch_musa/csrc/aten/musa/Exceptions.h",
}
HEADER_FORMS = (
    (re.compile(r"cuda_(\w+\.h)"), r"musa_\1"),
    (re.compile(r"cu(blas|dnn|rand|fft|sparse|solver)(\w*\.h)"), r"mu\1\2"),
    # torch_musa generates these from PyTorch's own, into a folder of its include path
    (re.compile(r"(c10|ATen)/cuda/CUDA(\w+)\.(h|cuh)"), r"\1/musa/MUSA\2.\3"),
    (re.compile(r"(c10|ATen)/cuda/(.+)"), r"\1/musa/\2"),
)

# Thresholds of `__CUDA_ARCH__` that have an equal on MUSA: mp_22 for Ampere, mp_31 for Hopper.
ARCHITECTURES = {"800": "220", "900": "310"}

_PTX, _WMMA, _TMA, _COPY = "inline PTX", "tensor core fragments (wmma)", "the tensor memory accelerator", "cp.async"
_CLUSTERS, _VERSION = "thread block clusters", "a comparison with CUDA's version"
_DEPENDENT = "programmatic dependent launches"

# What cannot be ported, by the whole name that shows it.
REFUSED = (
    (re.compile(r"asm|__asm|__asm__"), _PTX),
    (re.compile(r"wmma|nvcuda"), _WMMA),
    (re.compile(r"CUtensorMap\w*|cuTensorMap\w+|cp_async_bulk\w*|__nv_tma\w*"), _TMA),
    (re.compile(r"__pipeline_\w+|__nv_memcpy_async\w*|memcpy_async"), _COPY),
    (re.compile(r"this_cluster|cluster_group|__cluster_dims__|cuda\w*Cluster\w*"), _CLUSTERS),
    (
        re.compile(r"cudaGridDependencySynchronize|cudaTriggerProgrammatic\w+|\w*ProgrammaticStreamSerial\w+"),
        _DEPENDENT,
    ),
    (re.compile(r"CUDART_VERSION|CUDA_VERSION|__CUDACC_VER_\w+"), _VERSION),
    (re.compile(r"__CUDA_ARCH_(?!_$)\w+"), "a feature test of one CUDA architecture"),
    (re.compile(r"__nvvm_\w+|__nv_(?!bfloat16|half|fp8)\w+"), "NVIDIA's device library"),
)
REFUSED_HEADERS = (
    (re.compile(r"mma\.h"), _WMMA),
    (re.compile(r"cuda_(pipeline|awbarrier)\w*\.h|cooperative_groups/memcpy_async\.h|cuda/(pipeline|barrier)"), _COPY),
    (re.compile(r"cuda/(?!std/).+|cudaTypedefs\.h"), "libcu++"),
)
