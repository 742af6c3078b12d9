// libcu++ names: on the host they are those of the C++ library.
#pragma once

namespace std {}
namespace cuda::std {
using namespace ::std;
}
