/* Calls every function of elinvar.h, and checks what comes back. */

#include "elinvar.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static int failures = 0;

#define CHECK(is)                                                                                  \
    do {                                                                                           \
        if (!(is)) {                                                                               \
            printf("line %d: %s (%s)\n", __LINE__, #is, elinvar_last_error());                     \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)
#define REFUSED(call, status, word)                                                                \
    do {                                                                                           \
        CHECK((call) == (status));                                                                 \
        CHECK(strstr(elinvar_last_error(), word) != NULL);                                         \
    } while (0)

static uint64_t put(elinvar_backend b, const double *v, size_t n) {
    uint64_t p = 0;
    CHECK(elinvar_alloc(b, n * sizeof *v, &p) == ELINVAR_OK);
    CHECK(p % 256 == 0);
    CHECK(elinvar_copy_htod(b, p, v, n * sizeof *v) == ELINVAR_OK);
    return p;
}

static int holds(elinvar_backend b, uint64_t p, const double *want, size_t n) {
    double got[16];
    CHECK(elinvar_copy_dtoh(b, got, n * sizeof *got, p) == ELINVAR_OK);
    return memcmp(got, want, n * sizeof *got) == 0;
}

int main(int argc, char **argv) {
    elinvar_backend b = 0, none = 0;
    const double a[] = {1, 2, 3, 4}, unit[] = {1, 0, 0, 1}, nan4[] = {NAN, NAN, NAN, NAN};
    const char *device = argc > 1 ? argv[1] : "cpu";

    CHECK(strcmp(elinvar_last_error(), "") == 0);
    REFUSED(elinvar_open("abacus", ELINVAR_F64, &b), ELINVAR_INVALID_ARGUMENT, "abacus");
    REFUSED(elinvar_open(NULL, ELINVAR_F64, &b), ELINVAR_INVALID_ARGUMENT, "device is null");
    REFUSED(elinvar_open(device, ELINVAR_F64, NULL), ELINVAR_INVALID_ARGUMENT, "out is null");
    REFUSED(elinvar_open(device, 9, &b), ELINVAR_INVALID_ARGUMENT, "elements 9");
    REFUSED(elinvar_init(none), ELINVAR_INVALID_ARGUMENT, "backend 0 is not open");
    CHECK(elinvar_name(none) == NULL);
    CHECK(elinvar_open(device, ELINVAR_F64, &b) == ELINVAR_OK);
    CHECK(elinvar_name(b) != NULL && strncmp(elinvar_name(b), device, 3) == 0);

    uint64_t p = 0;
    CHECK(!elinvar_is_initialized(b));
    REFUSED(elinvar_alloc(b, 8, &p), ELINVAR_NOT_INITIALIZED, "not initialized");
    CHECK(elinvar_init(b) == ELINVAR_OK && elinvar_init(b) == ELINVAR_OK);
    CHECK(elinvar_is_initialized(b));
    REFUSED(elinvar_alloc(b, 0, &p), ELINVAR_INVALID_ARGUMENT, "0 bytes");
    REFUSED(elinvar_alloc(b, 8, NULL), ELINVAR_INVALID_ARGUMENT, "out is null");
    REFUSED(elinvar_alloc(b, SIZE_MAX / 4, &p), ELINVAR_OUT_OF_MEMORY, "memory");

    uint64_t x = put(b, a, 4), e = put(b, unit, 4), y = put(b, nan4, 4);
    const double ten[] = {10, 20, 30, 40}, turned[] = {12, 32, 23, 43};
    CHECK(elinvar_gemm(b, ELINVAR_NO_TRANS, ELINVAR_CONJ_TRANS, 2, 2, 2, 10, x, 2, e, 2, 0, y, 2) == ELINVAR_OK);
    CHECK(holds(b, y, ten, 4));
    /* y = x^T + ... of y, one matrix: [1 3] and [2 4] are the columns of x^T. */
    CHECK(elinvar_batched_gemm(b, ELINVAR_TRANS, ELINVAR_NO_TRANS, 2, 2, 2, 1, x, 2, 0, e, 2, 0, 1, y, 2, 4, 1) == ELINVAR_OK);
    const double sums[] = {11, 23, 32, 44};
    CHECK(holds(b, y, sums, 4));
    (void)turned;
    REFUSED(elinvar_gemm(b, 3, 0, 2, 2, 2, 1, x, 2, e, 2, 0, y, 2), ELINVAR_INVALID_ARGUMENT, "trans_a 3");
    REFUSED(elinvar_gemm(b, 0, 0, 2, 2, 2, 1, x, 1, e, 2, 0, y, 2), ELINVAR_INVALID_ARGUMENT, "lda");
    REFUSED(elinvar_gemm(b, 0, 0, 2, 2, 2, 1, x, 2, e, 2, 0, x, 2), ELINVAR_INVALID_ARGUMENT, "overlaps");

    const size_t in[] = {1, 1, 2, 2}, taps[] = {1, 1, 2, 1}, out[] = {1, 1, 1, 2}, one[] = {1, 1}, zero[] = {0, 0};
    const double columns[] = {4, 6};
    uint64_t ones = put(b, a, 2);
    CHECK(elinvar_binary(b, ELINVAR_DIV, ones, ones, ones, 2) == ELINVAR_OK);
    CHECK(elinvar_conv2d_forward(b, x, in, ones, taps, y, out, one, zero) == ELINVAR_OK);
    CHECK(holds(b, y, columns, 2));
    REFUSED(elinvar_conv2d_forward(b, x, in, ones, NULL, y, out, one, zero), ELINVAR_INVALID_ARGUMENT, "filter_shape is null");
    REFUSED(elinvar_conv2d_forward(b, x, in, ones, taps, y, in, one, zero), ELINVAR_INVALID_ARGUMENT, "output");

    /* One key: its value, whatever the score. */
    CHECK(elinvar_attention(b, e, x, x, y, 1, 1, 1, 1, 2, 0.5, 1) == ELINVAR_OK);
    CHECK(holds(b, y, a, 2));
    const size_t shape[] = {2, 2};
    const double rows[] = {3, 7}, least[] = {1, 2};
    CHECK(elinvar_reduce(b, ELINVAR_SUM, x, y, shape, 2, 1) == ELINVAR_OK && holds(b, y, rows, 2));
    CHECK(elinvar_reduce(b, ELINVAR_MIN, x, y, shape, 2, 0) == ELINVAR_OK && holds(b, y, least, 2));
    REFUSED(elinvar_reduce(b, ELINVAR_SUM, x, y, NULL, 2, 0), ELINVAR_INVALID_ARGUMENT, "shape is null");
    REFUSED(elinvar_reduce(b, 4, x, y, shape, 2, 0), ELINVAR_INVALID_ARGUMENT, "op 4");
    REFUSED(elinvar_unary(b, -1, x, y, 2), ELINVAR_INVALID_ARGUMENT, "op -1");
    REFUSED(elinvar_binary(b, 6, x, x, y, 2), ELINVAR_INVALID_ARGUMENT, "op 6");
    const double negative[] = {-2, -3};
    CHECK(elinvar_unary(b, ELINVAR_NEG, x + sizeof(double), y, 2) == ELINVAR_OK && holds(b, y, negative, 2));
    CHECK(elinvar_synchronize(b) == ELINVAR_OK);

    REFUSED(elinvar_copy_dtoh(b, NULL, 8, x), ELINVAR_INVALID_ARGUMENT, "dst is null");
    REFUSED(elinvar_copy_htod(b, x, NULL, 8), ELINVAR_INVALID_ARGUMENT, "src is null");
    REFUSED(elinvar_copy_htod(b, x + 25, a, 8), ELINVAR_INVALID_ARGUMENT, "end of its memory");
    CHECK(elinvar_copy_htod(b, 0, NULL, 0) == ELINVAR_OK);
    size_t allocations = 0, bytes = 0;
    CHECK(elinvar_usage(b, &allocations, &bytes) == ELINVAR_OK && allocations == 4 && bytes == 112);
    REFUSED(elinvar_usage(b, NULL, &bytes), ELINVAR_INVALID_ARGUMENT, "allocations is null");
    uint64_t all[] = {x, e, y, ones};
    for (int i = 0; i < 4; i++) {
        CHECK(elinvar_free(b, all[i]) == ELINVAR_OK);
    }
    REFUSED(elinvar_free(b, x), ELINVAR_INVALID_ARGUMENT, "freed");
    CHECK(elinvar_close(b) == ELINVAR_OK);
    REFUSED(elinvar_close(b), ELINVAR_INVALID_ARGUMENT, "not open");
    REFUSED(elinvar_unary(b, ELINVAR_NEG, x, x, 1), ELINVAR_INVALID_ARGUMENT, "not open");
    printf(failures == 0 ? "all is well\n" : "%d failures\n", failures);
    return failures != 0;
}
