// Launches that are calls of the runtime API. The rewriter takes away the casts that hide a kernel's type in them, and
// spells those elsewhere `emulator::Hidden{"kernel"}->*kernel<int>`, which notes how to launch it.
#pragma once
#include <emulator/launch.h>

#define cudaCooperativeLaunchMultiDeviceNoPreSync 1

enum cudaLaunchAttributeID {
  cudaLaunchAttributeIgnore,
  cudaLaunchAttributeAccessPolicyWindow,
  cudaLaunchAttributeCooperative,
  cudaLaunchAttributeSynchronizationPolicy,
  cudaLaunchAttributeClusterDimension,
  cudaLaunchAttributeClusterSchedulingPolicyPreference,
  cudaLaunchAttributeProgrammaticStreamSerialization,
  cudaLaunchAttributeProgrammaticEvent,
  cudaLaunchAttributePriority,
  cudaLaunchAttributeMemSyncDomainMap,
  cudaLaunchAttributeMemSyncDomain
};
union cudaLaunchAttributeValue {
  char pad[64];
  int cooperative;
  int priority;
  int programmaticStreamSerializationAllowed;
  struct {
    unsigned x, y, z;
  } clusterDim;
};
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  cudaLaunchAttributeValue val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};

namespace emulator {

inline LaunchConfig config_of(const cudaLaunchConfig_t& given) {
  LaunchConfig config(given.gridDim, given.blockDim, given.dynamicSmemBytes, given.stream);
  config.by_variable = true;
  for (unsigned i = 0; i < given.numAttrs; i++) {
    const cudaLaunchAttributeValue& value = given.attrs[i].val;
    if (given.attrs[i].id == cudaLaunchAttributeCooperative) {
      config.cooperative = value.cooperative != 0;
    } else if (given.attrs[i].id == cudaLaunchAttributeClusterDimension &&
               value.clusterDim.x * value.clusterDim.y * value.clusterDim.z != 1) {
      musadata_unsupported("a cluster of thread blocks");
    }
  }
  return config;
}

inline cudaError_t launched() { return static_cast<cudaError_t>(musadata_last_error(0)); }

template <class... Parameters, size_t... Index>
inline void launch_unpacked(const char* name, void (*kernel)(Parameters...), const LaunchConfig& config,
                            void** arguments, std::index_sequence<Index...>) {
  launch(name, config, kernel, *static_cast<std::decay_t<Parameters>*>(arguments[Index])...);
}
template <class... Parameters>
inline cudaError_t launch_packed(const char* name, void (*kernel)(Parameters...), const LaunchConfig& config,
                                 void** arguments) {
  launch_unpacked(name, kernel, config, arguments, std::index_sequence_for<Parameters...>());
  return launched();
}
inline cudaError_t launch_packed(const char*, const void* kernel, const LaunchConfig& config, void** arguments) {
  const HiddenKernel hidden = musadata_find_kernel(kernel);
  if (hidden.launch == nullptr) {
    musadata_unsupported("the launch of a kernel whose type a void* hides");
  }
  hidden.launch(hidden.name, kernel, &config, arguments);
  return launched();
}

struct Hidden {
  const char* name;
};
template <class... Parameters>
inline void* operator->*(Hidden hidden, void (*kernel)(Parameters...)) {
  const auto launch = [](const char* name, const void* kernel, const LaunchConfig* config, void** arguments) {
    launch_packed(name, (void (*)(Parameters...))kernel, *config, arguments);
  };
  musadata_hide_kernel((const void*)kernel, {hidden.name, launch});
  return (void*)kernel;
}
template <class T>
inline void* operator->*(Hidden, T* other) {  // a variable of a kernel's name
  return (void*)other;
}

struct CallText {
  char kernel[256];
  CallText(const char* text, int position) {
    name_of_argument(text, position, kernel, sizeof kernel);
    if (kernel[0] == '\0') {
      strcpy(kernel, "kernel");
    }
  }
};

template <class Kernel>
inline cudaError_t launch_kernel(const CallText& text, Kernel kernel, dim3 grid, dim3 block, void** arguments,
                                 size_t shared_bytes = 0, cudaStream_t stream = nullptr) {
  return launch_packed(text.kernel, kernel, LaunchConfig(grid, block, shared_bytes, stream).of_variable(), arguments);
}
template <class Kernel>
inline cudaError_t launch_cooperative(const CallText& text, Kernel kernel, dim3 grid, dim3 block, void** arguments,
                                      size_t shared_bytes = 0, cudaStream_t stream = nullptr) {
  LaunchConfig config(grid, block, shared_bytes, stream);
  config.cooperative = config.by_variable = true;
  return launch_packed(text.kernel, kernel, config, arguments);
}
template <class... Parameters, class... Arguments>
inline cudaError_t launch_configured(const CallText& text, const cudaLaunchConfig_t* config,
                                     void (*kernel)(Parameters...), Arguments&&... arguments) {
  launch(text.kernel, config_of(*config), kernel, static_cast<std::decay_t<Parameters>>(arguments)...);
  return launched();
}
template <class Kernel>
inline cudaError_t launch_configured_packed(const CallText& text, const cudaLaunchConfig_t* config, Kernel kernel,
                                            void** arguments) {
  return launch_packed(text.kernel, kernel, config_of(*config), arguments);
}

}  // namespace emulator

#define cudaLaunchKernel(...) emulator::launch_kernel(emulator::CallText(#__VA_ARGS__, 0), __VA_ARGS__)
#define cudaLaunchCooperativeKernel(...) emulator::launch_cooperative(emulator::CallText(#__VA_ARGS__, 0), __VA_ARGS__)
#define cudaLaunchKernelEx(...) emulator::launch_configured(emulator::CallText(#__VA_ARGS__, 1), __VA_ARGS__)
#define cudaLaunchKernelExC(...) emulator::launch_configured_packed(emulator::CallText(#__VA_ARGS__, 1), __VA_ARGS__)
