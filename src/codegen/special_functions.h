// codegen/special_functions.h: functions that have neither a vector form here nor a place in libm.
//
// Called lane by lane (codegen/x86/imports.h), in f64 for f32 too.
#pragma once

namespace braze::codegen {

/// log |Gamma(x)|; infinite at 0, -1, -2, ... Thread-safe, other than C's lgamma.
double log_gamma(double x);

/// The derivative of log_gamma. At +-0 it is -+inf, at negative integers NaN, as in torch.digamma.
/// Method: reflection, recurrence up to 10, and the asymptotic series (Abramowitz and Stegun 6.3.7, 6.3.5, 6.3.18).
double digamma(double x);

/// y with erf(y) = x: infinite at -1 and 1, NaN beyond.
/// Method: Winitzki's approximation ("A handy approximation for the error function and its inverse", 2008), then
/// Halley's iteration.
double erfinv(double x);

}  // namespace braze::codegen
