/* Every function of the C ABI, from C: for any number of ranks from 2 on. Twice, so that init after
 * shutdown is seen to work. Ends with 0, or with 1 and the line that went wrong. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hv/hv_c.h"

#define CHECK(condition)                                                              \
  do {                                                                                \
    if (!(condition)) {                                                               \
      fprintf(stderr, "rank %d, line %d: %s (%s)\n", hv_rank(), __LINE__, #condition, \
              hv_last_error());                                                       \
      exit(1);                                                                        \
    }                                                                                 \
  } while (0)

static int rank, size;

static hv_tensor floats(float* data, const int64_t* shape, int32_t dims) {
  hv_tensor tensor = {data, HV_FLOAT32, -1, dims, shape};
  return tensor;
}

static void finish(hv_handle handle) {
  CHECK(hv_wait(handle, -1) == HV_OK);
  CHECK(hv_poll(handle) == HV_OK);
  hv_release(handle);
  CHECK(hv_poll(handle) == HV_NOT_FOUND);
}

static void reductions(void) {
  float in[4] = {1, 2, 3, (float)rank}, out[4] = {0};
  const int64_t shape[] = {2, 2};
  hv_tensor from = floats(in, shape, 2), to = floats(out, shape, 2);
  hv_reduce_options sum = {HV_SUM, 1.0, 2.0};
  hv_handle handle = 0;
  CHECK(hv_allreduce("sum", &from, &to, &sum, 0, &handle) == HV_OK);
  finish(handle);
  CHECK(out[0] == 2.0F * (float)size && out[3] == (float)(size * (size - 1)));

  CHECK(hv_allreduce("average", &from, NULL, NULL, 0, &handle) == HV_OK);
  finish(handle);
  CHECK(in[2] == 3 && in[3] == (float)(size - 1) / 2);

  hv_tensor both[2] = {from, to};
  hv_reduce_options max = {HV_MAX, 1.0, 1.0};
  CHECK(hv_grouped_allreduce("group", both, NULL, 2, &max, 0, &handle) == HV_OK);
  CHECK(hv_outputs(handle) == 2);
  finish(handle);

  float rows[64];
  for (int i = 0; i < 64; ++i) rows[i] = (float)(i / 2);
  const int64_t many[] = {size + 1, 2};
  hv_tensor table = floats(rows, many, 2), share;
  hv_reduce_options plain = {HV_SUM, 1.0, 1.0};
  CHECK(hv_reducescatter("scatter", &table, NULL, &plain, 0, &handle) == HV_OK);
  CHECK(hv_wait(handle, 60) == HV_OK);
  CHECK(hv_output(handle, 0, &share) == HV_OK);
  CHECK(share.dims == 2 && share.shape[0] == (rank == 0 ? 2 : 1) && share.shape[1] == 2);
  CHECK(((float*)share.data)[0] == (float)(size * (rank == 0 ? 0 : rank + 1)));
  hv_release(handle);
  CHECK(hv_grouped_reducescatter("scatters", &table, 1, &plain, 0, &handle) == HV_OK);
  finish(handle);

  int64_t where[2] = {rank, 7};
  const int64_t two[] = {2}, two_by_two[] = {2, 2};
  hv_tensor indices = {where, HV_INT64, -1, 1, two}, values = floats(out, two_by_two, 2), all;
  CHECK(hv_sparse_allreduce("sparse", &indices, &values, HV_SUM, 0, &handle) == HV_OK);
  CHECK(hv_wait(handle, -1) == HV_OK);
  CHECK(hv_outputs(handle) == 2);
  CHECK(hv_output(handle, 0, &all) == HV_OK);
  CHECK(all.shape[0] == 2 * size && ((int64_t*)all.data)[2 * (size - 1)] == size - 1);
  CHECK(hv_output(handle, 1, &all) == HV_OK);
  CHECK(all.dims == 2 && all.shape[0] == 2 * size);
  hv_release(handle);
}

static void moves(void) {
  float data[8] = {0};
  const int64_t shape[] = {rank + 1};
  for (int i = 0; i <= rank && i < 8; ++i) data[i] = (float)rank;
  hv_tensor mine = floats(data, shape, 1), all;
  int64_t rows[16];
  hv_handle handle = 0;
  CHECK(hv_allgather("gather", &mine, 0, &handle) == HV_OK);
  CHECK(hv_wait(handle, -1) == HV_OK);
  CHECK(hv_output(handle, 0, &all) == HV_OK);
  CHECK(all.dtype == HV_FLOAT32 && all.shape[0] == size * (size + 1) / 2);
  CHECK(((float*)all.data)[all.shape[0] - 1] == (float)(size - 1));
  CHECK(hv_rows(handle, 0, rows, 16) == size && rows[size - 1] == size);
  CHECK(hv_output(handle, 1, &all) == HV_INVALID_ARGUMENT);
  hv_release(handle);
  CHECK(hv_grouped_allgather("gathers", &mine, 1, 0, &handle) == HV_OK);
  finish(handle);

  int32_t sent[16];
  int64_t splits[16];
  const int64_t each[] = {size};
  for (int i = 0; i < size; ++i) {
    sent[i] = 100 * rank + i;
    splits[i] = 1;
  }
  hv_tensor letters = {sent, HV_INT32, -1, 1, each};
  CHECK(hv_alltoall("letters", &letters, splits, size, 0, &handle) == HV_OK);
  CHECK(hv_wait(handle, -1) == HV_OK);
  CHECK(hv_output(handle, 0, &all) == HV_OK);
  for (int i = 0; i < size; ++i) CHECK(((int32_t*)all.data)[i] == 100 * i + rank);
  hv_release(handle);

  int64_t number = rank == 1 ? 42 : 0;
  hv_tensor scalar = {&number, HV_INT64, -1, 0, NULL};
  CHECK(hv_broadcast("number", &scalar, NULL, 1, 0, &handle) == HV_OK);
  finish(handle);
  CHECK(number == 42);
}

static void errors(void) {
  float data[4] = {0};
  const int64_t shape[] = {2 + (rank == 0)};
  hv_tensor odd = floats(data, shape, 1), none = {data, 99, -1, 1, shape};
  hv_handle handle = 7;
  CHECK(hv_allreduce("x", &none, NULL, NULL, 0, &handle) == HV_INVALID_ARGUMENT && handle == 0);
  CHECK(strstr(hv_last_error(), "99") != NULL);
  CHECK(hv_allreduce("x", &odd, NULL, NULL, 12345, &handle) == HV_INVALID_ARGUMENT);
  CHECK(hv_allreduce(NULL, &odd, NULL, NULL, 0, &handle) == HV_INVALID_ARGUMENT);
  CHECK(hv_init(NULL) == HV_INVALID_ARGUMENT);
  CHECK(hv_wait(4711, 0) == HV_NOT_FOUND);
  /* Shapes differ: the same error on every rank, and the world goes on. */
  CHECK(hv_allreduce("odd", &odd, NULL, NULL, 0, &handle) == HV_OK);
  CHECK(hv_wait(handle, -1) == HV_MISMATCH);
  CHECK(strstr(hv_last_error(), "'odd'") != NULL);
  hv_release(handle);
  /* Until rank 0 comes the others wait in vain, but not for ever. */
  hv_handle late = 0;
  if (rank != 0) {
    CHECK(hv_barrier("late", 0, &late) == HV_OK);
    CHECK(hv_poll(late) == HV_PENDING);
    CHECK(hv_wait(late, 0.05) == HV_PENDING);
    CHECK(hv_output(late, 0, &odd) == HV_USAGE);
  }
  CHECK(hv_barrier("together", 0, &handle) == (HV_OK));
  finish(handle);
  if (rank == 0) CHECK(hv_barrier("late", 0, &late) == HV_OK);
  finish(late);
}

static void sets(void) {
  const int32_t ranks[] = {0, 1};
  const int32_t members = size > 2 ? 2 : 1; /* never all: they have a set already */
  int32_t seen[16];
  hv_set set = 0;
  hv_handle handle = 0;
  const int before = hv_process_set_count();
  CHECK(hv_add_process_set(ranks, members, &set) == HV_OK && set > 0);
  CHECK(hv_process_set_count() == before + 1);
  CHECK(hv_process_set_ids(seen, 16) == before + 1 && seen[0] == 0);
  CHECK(hv_process_set_ranks(set, seen, 16) == members && seen[0] == 0);
  CHECK(hv_process_set_size(set) == members);
  CHECK(hv_process_set_rank(set) == (rank < members ? rank : -1));
  if (rank < members) {
    CHECK(hv_barrier(NULL, set, &handle) == HV_OK);
    finish(handle);
  } else {
    CHECK(hv_barrier(NULL, set, &handle) == HV_INVALID_ARGUMENT);
  }
  CHECK(hv_remove_process_set(set) == HV_OK);
  CHECK(hv_process_set_size(set) == -1);
  CHECK(hv_join(0, &handle) == HV_OK);
  CHECK(hv_wait(handle, -1) == HV_OK);
  CHECK(hv_last_joined(handle) >= 0 && hv_last_joined(handle) < size);
  hv_release(handle);
}

int main(int argc, char** argv) {
  CHECK(hv_c_version() / 1000 == HV_C_MAJOR && hv_c_version() % 1000 >= HV_C_MINOR);
  CHECK(strlen(hv_build()) > 0);
  CHECK(!hv_is_initialized() && hv_rank() == -1);
  CHECK(hv_shutdown() == HV_OK);
  for (int cycle = 0; cycle < 2; ++cycle) {
    const int32_t sizes[] = {1}, ranks[] = {1};
    const hv_init_options options = {1, sizes, ranks};
    CHECK(hv_init(cycle == 0 ? NULL : &options) == HV_OK);
    CHECK(hv_is_initialized());
    CHECK(hv_process_set_count() == 1 + cycle);
    rank = hv_rank();
    size = hv_size();
    CHECK(hv_local_rank() == rank && hv_local_size() == size && hv_host_count() == 1);
    CHECK(hv_cross_rank() == 0 && hv_cross_size() == 1);
    if (argc > 1) CHECK(hv_start_timeline(argv[1], 0) == HV_OK);
    reductions();
    moves();
    errors();
    sets();
    if (argc > 1) CHECK(hv_stop_timeline() == HV_OK);
    CHECK(hv_shutdown() == HV_OK);
    CHECK(!hv_is_initialized());
  }
  printf("all right\n");
  return 0;
}
