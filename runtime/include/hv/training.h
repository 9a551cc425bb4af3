// What a data-parallel training program needs besides its model: see the headers below.
#pragma once

#include "hv/checkpoint.h"
#include "hv/compression.h"
#include "hv/hv.h"
#include "hv/optimizer.h"
#include "hv/parameters.h"
#include "hv/sampler.h"
#include "hv/schedule.h"
