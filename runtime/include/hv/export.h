// What leaves the shared library; everything else is hidden.
#pragma once

#define HV_API __attribute__((visibility("default")))
