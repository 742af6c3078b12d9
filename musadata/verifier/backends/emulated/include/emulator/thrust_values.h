// The value types of Thrust, which compute nothing by themselves.
#pragma once
#include <cuda_runtime.h>

#include <complex>
#include <tuple>
#include <utility>

namespace thrust {

using std::abs;
using std::arg;
using std::complex;
using std::conj;
using std::cos;
using std::cosh;
using std::exp;
using std::get;
using std::log;
using std::make_pair;
using std::make_tuple;
using std::norm;
using std::pair;
using std::polar;
using std::pow;
using std::sin;
using std::sinh;
using std::sqrt;
using std::swap;
using std::tan;
using std::tanh;
using std::tie;
using std::tuple;
using std::tuple_element;
using std::tuple_size;

}  // namespace thrust
