#pragma once

#include "cuda_fp16.h"

using __nv_bfloat16 = hv::BFloat16;
inline float __bfloat162float(__nv_bfloat16 value) { return hv::to_float(value); }
inline __nv_bfloat16 __float2bfloat16_rn(float value) { return hv::to_bfloat16(value); }
