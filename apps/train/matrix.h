// Row-major float matrices: the layout of hv::TensorView.
#pragma once

#include <Eigen/Core>

namespace hv::train {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

}  // namespace hv::train
