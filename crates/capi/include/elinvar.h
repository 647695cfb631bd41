/*
 * Raw memory and kernels of elinvar's devices: the same bits on every one of them.
 *
 * A backend is a number, a device pointer is a number, and every function returns a status; the
 * sentence to it is elinvar_last_error(). Pointers are those of elinvar_alloc, or lie inside of its
 * memory: p + n for n bytes. Sizes, strides and leading dimensions count elements, which are of the
 * type that elinvar_open was given; elinvar_alloc and the copies count bytes. An operand without
 * elements has no memory, and its device pointer is not looked at.
 *
 * Every call checks its device pointers: unknown, freed, another backend's, not aligned, too little
 * memory behind it, memory that overlaps what is written. Host pointers are checked for null and
 * alignment; that there are as many elements as named is the caller's promise.
 *
 * All functions may be called from several threads. What a thread writes and another one reads must
 * be ordered by the caller.
 *
 * Link with -lelinvar_c (cargo build --release -p elinvar-capi).
 */
#ifndef ELINVAR_H
#define ELINVAR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A backend that is open. 0 is none. */
typedef uint64_t elinvar_backend;

/* What a function returns. */
enum elinvar_status {
    ELINVAR_OK = 0,
    ELINVAR_UNSUPPORTED = 1,
    ELINVAR_DEVICE_ERROR = 2,
    ELINVAR_INVALID_ARGUMENT = 3,
    ELINVAR_OUT_OF_MEMORY = 4,
    ELINVAR_NOT_INITIALIZED = 5,
    /* A defect of elinvar. */
    ELINVAR_PANIC = 6
};

/* The type of all elements; or f64 in products and f32 elsewhere. */
enum elinvar_elements { ELINVAR_F32 = 0, ELINVAR_F64 = 1, ELINVAR_AS_PUBLISHED = 2 };

/* How a matrix is read. Numbers are real: the last two are the same. */
enum elinvar_transpose { ELINVAR_NO_TRANS = 0, ELINVAR_TRANS = 1, ELINVAR_CONJ_TRANS = 2 };

enum elinvar_reduce_op { ELINVAR_SUM = 0, ELINVAR_MAX = 1, ELINVAR_MIN = 2, ELINVAR_MEAN = 3 };

enum elinvar_unary_op {
    ELINVAR_RELU = 0,
    ELINVAR_SIGMOID = 1,
    ELINVAR_TANH = 2,
    ELINVAR_EXP = 3,
    ELINVAR_LOG = 4,
    ELINVAR_SQRT = 5,
    ELINVAR_ABS = 6,
    ELINVAR_NEG = 7
};

enum elinvar_binary_op {
    ELINVAR_ADD = 0,
    ELINVAR_SUB = 1,
    ELINVAR_MUL = 2,
    ELINVAR_DIV = 3,
    ELINVAR_MAXIMUM = 4,
    ELINVAR_MINIMUM = 5
};

/* The sentence of this thread's last call that failed; empty if none did. Valid until the next one
 * that fails in this thread. */
const char *elinvar_last_error(void);

/* Opens a device by name, as "cpu", "cuda:0", "vulkan:0", "reference" or "best", with elements of
 * enum elinvar_elements. elinvar_close frees all of its memory. */
int elinvar_open(const char *device, int elements, elinvar_backend *out);
int elinvar_close(elinvar_backend backend);

/* Allocations that were not freed, and their bytes. */
int elinvar_usage(elinvar_backend backend, size_t *allocations, size_t *bytes);

/* The backend's name, as "cpu"; NULL if it is not open. The string stays. */
const char *elinvar_name(elinvar_backend backend);

/* Must be called before any function below; the second time it does nothing. */
int elinvar_init(elinvar_backend backend);

/* 1 or 0. */
int elinvar_is_initialized(elinvar_backend backend);

/* C = alpha op(A) op(B) + beta C: op(A) is m x k, op(B) is k x n, C is m x n. Stored by columns, the
 * leading dimension is from one column to the next. A and B are not looked at if alpha or k is 0, C
 * is not read if beta is 0. */
int elinvar_gemm(elinvar_backend backend, int trans_a, int trans_b, size_t m, size_t n, size_t k,
                 double alpha, uint64_t a, size_t lda, uint64_t b, size_t ldb, double beta,
                 uint64_t c, size_t ldc);

/* The same for batch_count matrices each, at strides in elements; 0 is one matrix for all. */
int elinvar_batched_gemm(elinvar_backend backend, int trans_a, int trans_b, size_t m, size_t n,
                         size_t k, double alpha, uint64_t a, size_t lda, size_t stride_a,
                         uint64_t b, size_t ldb, size_t stride_b, double beta, uint64_t c,
                         size_t ldc, size_t stride_c, size_t batch_count);

/* Cross-correlation. Shapes: input [n, c, h, w], filter [k, c, r, s], output [n, k, oh, ow]; stride
 * [sh, sw], padding [ph, pw]; oh = (h + 2 ph - r) / sh + 1, rounded down. */
int elinvar_conv2d_forward(elinvar_backend backend, uint64_t input, const size_t *input_shape,
                           uint64_t filter, const size_t *filter_shape, uint64_t output,
                           const size_t *output_shape, const size_t *stride,
                           const size_t *padding);

/* o = softmax(scale q k^T) v: q and o [batch, heads, seq_q, head_dim], k and v [batch, heads,
 * seq_kv, head_dim]. If causal is not 0, query i sees keys 0..=(i + seq_kv - seq_q). */
int elinvar_attention(elinvar_backend backend, uint64_t q, uint64_t k, uint64_t v, uint64_t o,
                      size_t batch, size_t heads, size_t seq_q, size_t seq_kv, size_t head_dim,
                      double scale, int causal);

/* Combines the elements along one axis of a row-major input of rank sizes. */
int elinvar_reduce(elinvar_backend backend, int op, uint64_t input, uint64_t output,
                   const size_t *shape, size_t rank, size_t axis);

/* output[i] = op(input[i]); the output may be the input. */
int elinvar_unary(elinvar_backend backend, int op, uint64_t input, uint64_t output, size_t n);

/* output[i] = op(a[i], b[i]); the output may be a or b. */
int elinvar_binary(elinvar_backend backend, int op, uint64_t a, uint64_t b, uint64_t output,
                   size_t n);

/* Waits until all work is done. */
int elinvar_synchronize(elinvar_backend backend);

/* Memory of so many bytes, of zeros, at a multiple of 256. */
int elinvar_alloc(elinvar_backend backend, size_t bytes, uint64_t *out);
int elinvar_free(elinvar_backend backend, uint64_t ptr);

/* Copies; a device pointer may be any inside of an allocation. */
int elinvar_copy_htod(elinvar_backend backend, uint64_t dst, const void *src, size_t bytes);
int elinvar_copy_dtoh(elinvar_backend backend, void *dst, size_t bytes, uint64_t src);

#ifdef __cplusplus
}
#endif

#endif
