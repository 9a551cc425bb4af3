/* hvrun's runtime for C, and for everything that calls C (Rust, ctypes, …).
 *
 *   hv_tensor t = {gradient, HV_FLOAT32, -1, 1, (int64_t[]){n}};
 *   hv_handle h;
 *   if (hv_init(NULL) || hv_allreduce("layer1.weight", &t, NULL, NULL, 0, &h) || hv_wait(h, -1))
 *     fprintf(stderr, "%s\n", hv_last_error());
 *   hv_release(h);
 *
 * One world per process, between hv_init and hv_shutdown; then it may be initialised again. All
 * functions may be called from any thread. What an operation does, and what it refuses, is said in
 * hv/collectives.h; tensors are lent until it is done. */
#ifndef HV_HV_C_H
#define HV_HV_C_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HV_C_API __attribute__((visibility("default")))

/* The first number grows when something that was there changes, the second when something is
 * added. A program built with 1.x works with every library of 1.y, y >= x. */
#define HV_C_MAJOR 1
#define HV_C_MINOR 1
HV_C_API int hv_c_version(void);     /* of the library: major * 1000 + minor */
HV_C_API const char* hv_build(void); /* version and build, for people */

/* ---- errors ------------------------------------------------------------------------------- */

enum {
  HV_PENDING = -1, /* not done yet, or not within the time given */
  HV_OK = 0,
  HV_INVALID_ARGUMENT = 1,
  HV_USAGE = 2,
  HV_NOT_FOUND = 3,
  HV_TIMEOUT = 4,
  HV_PEER_LOST = 5,
  HV_MISMATCH = 6,
  HV_DUPLICATE_NAME = 7,
  HV_PROTOCOL = 8,
  HV_AUTH = 9,
  HV_SYSTEM = 10,
  HV_UNAVAILABLE = 11,
  HV_SHUTDOWN = 12,
  HV_ABORTED = 13,
  HV_INTERNAL = 14
};
typedef int hv_status;

/* What went wrong in this thread's last call that returned an error; valid until its next one. */
HV_C_API const char* hv_last_error(void);

/* ---- the world ---------------------------------------------------------------------------- */

/* Process sets that exist from the beginning, as rank lists one after the other: set i has
 * sizes[i] of `ranks`. They get the ids 1, 2, … */
typedef struct hv_init_options {
  int32_t sets;
  const int32_t* sizes;
  const int32_t* ranks;
} hv_init_options;

/* HV_INVALID_ARGUMENT if it is initialised already. `options` may be NULL. */
HV_C_API hv_status hv_init(const hv_init_options* options);
HV_C_API hv_status hv_shutdown(void); /* HV_OK also where there is no world */
HV_C_API int hv_is_initialized(void);
/* -1 where there is no world. */
HV_C_API int hv_rank(void);
HV_C_API int hv_size(void);
HV_C_API int hv_local_rank(void);
HV_C_API int hv_local_size(void);
HV_C_API int hv_cross_rank(void);
HV_C_API int hv_cross_size(void);
HV_C_API int hv_host_count(void);
/* From 1.1 on: the ordinal of this rank's CUDA device, which the first call opens; -1 on an error,
 * and hv_last_error() says what is missing. */
HV_C_API int hv_device(void);

HV_C_API hv_status hv_start_timeline(const char* path, int mark_cycles);
HV_C_API hv_status hv_stop_timeline(void);

/* ---- process sets ------------------------------------------------------------------------- */

typedef int32_t hv_set; /* 0: all ranks */

/* Collective over all ranks of the world. */
HV_C_API hv_status hv_add_process_set(const int32_t* ranks, int32_t count, hv_set* set);
HV_C_API hv_status hv_remove_process_set(hv_set set);
HV_C_API int hv_process_set_count(void); /* with that of all ranks; -1 where there is no world */
/* Writes up to `capacity` ids or ranks, ascending; returns how many there are, -1 on an error. */
HV_C_API int hv_process_set_ids(hv_set* ids, int32_t capacity);
HV_C_API int hv_process_set_ranks(hv_set set, int32_t* ranks, int32_t capacity);
/* -1 where there is no such set, or this process is not in it. */
HV_C_API int hv_process_set_rank(hv_set set);
HV_C_API int hv_process_set_size(hv_set set);

/* ---- operations --------------------------------------------------------------------------- */

enum { /* element types */
       HV_UINT8 = 0,
       HV_INT8 = 1,
       HV_UINT16 = 2,
       HV_INT16 = 3,
       HV_INT32 = 4,
       HV_INT64 = 5,
       HV_FLOAT16 = 6,
       HV_FLOAT32 = 7,
       HV_FLOAT64 = 8,
       HV_BOOL = 9,
       HV_BFLOAT16 = 10,
       HV_UINT32 = 11,
       HV_UINT64 = 12,
       HV_FLOAT8_E4M3 = 13,
       HV_FLOAT8_E5M2 = 14
};
enum { /* reductions */
       HV_AVERAGE = 0,
       HV_SUM = 1,
       HV_ADASUM = 2,
       HV_MIN = 3,
       HV_MAX = 4,
       HV_PRODUCT = 5
};

typedef struct hv_tensor { /* dense, row-major */
  void* data;
  int32_t dtype;
  int32_t device; /* -1: host memory, else the ordinal of this rank's CUDA device */
  int32_t dims;
  const int64_t* shape;
} hv_tensor;

/* From 1.1 on: the stream (a cudaStream_t; NULL, as in the beginning: the default one) that orders
 * the device tensors of the operations that this thread submits from now on: an operation begins
 * when the work that is on the stream then is done. */
HV_C_API hv_status hv_set_stream(void* stream);

typedef struct hv_reduce_options {
  int32_t op;
  double prescale, postscale;
} hv_reduce_options; /* NULL instead of one: average, 1, 1 */

typedef int64_t hv_handle; /* of one operation, or of a group; never 0 */

/* All return at once; the operation goes on until its handle is done. On an error nothing has been
 * submitted and *handle is 0. `out` may be NULL: allreduce and broadcast then work in place, a
 * reducescatter's result is the handle's output. */
HV_C_API hv_status hv_allreduce(const char* name, const hv_tensor* in, const hv_tensor* out,
                                const hv_reduce_options* options, hv_set set, hv_handle* handle);
HV_C_API hv_status hv_sparse_allreduce(const char* name, const hv_tensor* indices,
                                       const hv_tensor* values, int32_t op, hv_set set,
                                       hv_handle* handle);
HV_C_API hv_status hv_broadcast(const char* name, const hv_tensor* in, const hv_tensor* out,
                                int32_t root, hv_set set, hv_handle* handle);
HV_C_API hv_status hv_allgather(const char* name, const hv_tensor* in, hv_set set,
                                hv_handle* handle);
/* `splits`: rows for each rank of the set, or NULL for the same number to each. */
HV_C_API hv_status hv_alltoall(const char* name, const hv_tensor* in, const int64_t* splits,
                               int32_t count, hv_set set, hv_handle* handle);
HV_C_API hv_status hv_reducescatter(const char* name, const hv_tensor* in, const hv_tensor* out,
                                    const hv_reduce_options* options, hv_set set,
                                    hv_handle* handle);
HV_C_API hv_status hv_grouped_allreduce(const char* name, const hv_tensor* ins,
                                        const hv_tensor* outs, int32_t count,
                                        const hv_reduce_options* options, hv_set set,
                                        hv_handle* handle);
HV_C_API hv_status hv_grouped_allgather(const char* name, const hv_tensor* ins, int32_t count,
                                        hv_set set, hv_handle* handle);
HV_C_API hv_status hv_grouped_reducescatter(const char* name, const hv_tensor* ins, int32_t count,
                                            const hv_reduce_options* options, hv_set set,
                                            hv_handle* handle);
HV_C_API hv_status hv_barrier(const char* name, hv_set set, hv_handle* handle);
HV_C_API hv_status hv_join(hv_set set, hv_handle* handle);

/* ---- handles ------------------------------------------------------------------------------ */

/* HV_PENDING, HV_OK or the operation's error, whose text hv_last_error() then has. Never blocks. */
HV_C_API hv_status hv_poll(hv_handle handle);
/* The same, but waits up to `seconds`; negative: as long as it takes. After HV_PENDING the
 * operation goes on and its tensors stay lent. */
HV_C_API hv_status hv_wait(hv_handle handle, double seconds);
/* From 1.1 on: lets the work that is put on `stream` from now on wait for the result of device
 * tensors, instead of this thread, which waits only until the operation is on the GPU. Its output
 * can be used on that stream then. What goes wrong later hv_wait and hv_poll tell. */
HV_C_API hv_status hv_wait_on(hv_handle handle, void* stream);
/* What the runtime has made room for, after HV_OK; `index`: of the tensor in a group. The memory
 * and the shape are valid until the handle is released. */
HV_C_API hv_status hv_output(hv_handle handle, int32_t index, hv_tensor* tensor);
HV_C_API int hv_outputs(hv_handle handle); /* tensors in the group; -1 on an error */
/* Rows that came from each rank (allgather, alltoall): writes up to `capacity`, returns how many
 * there are, -1 on an error. */
HV_C_API int hv_rows(hv_handle handle, int32_t index, int64_t* rows, int32_t capacity);
HV_C_API int hv_last_joined(hv_handle handle); /* of a join; -1 on an error */
/* Forgets the handle; an operation that is not done goes on. Every handle is to be released. */
HV_C_API void hv_release(hv_handle handle);

#ifdef __cplusplus
}
#endif

#endif /* HV_HV_C_H */
