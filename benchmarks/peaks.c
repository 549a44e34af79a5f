/* What a processor can do at best: bytes read per second from memory, and int8 operations per second.
 *
 * peaks THREADS MEBIBYTES ROUNDS prints one line per round: bytes/s, operations/s, all threads together.
 * A multiply and an add are two operations. Compile with -O3 -march=native -pthread.
 */
#include <immintrin.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ACCUMULATORS 12
#define TURNS 20000000L

struct share {
    const uint64_t *data;
    size_t count;
    uint64_t sink;
};

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

static void *reads(void *argument) {
    struct share *own = argument;
    uint64_t sum = 0;
    for (size_t i = 0; i < own->count; i++) sum += own->data[i];
    own->sink = sum;
    return NULL;
}

#if defined(__AVX512VNNI__)
typedef __m512i vector;
#define STEP(sum, a, b) _mm512_dpbusd_epi32(sum, a, b)
#define FILL(value) _mm512_set1_epi8(value)
#elif defined(__AVX2__)
typedef __m256i vector;
#define STEP(sum, a, b) \
    _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), _mm256_set1_epi16(1)))
#define FILL(value) _mm256_set1_epi8(value)
#else
#error "no int8 instructions are known for this processor"
#endif

static void *multiplies(void *argument) {
    struct share *own = argument;
    vector sums[ACCUMULATORS], a = FILL(3), b = FILL(1);
    memset(sums, 0, sizeof sums);
    for (long turn = 0; turn < TURNS; turn++) {
#pragma GCC unroll 12
        for (int i = 0; i < ACCUMULATORS; i++) sums[i] = STEP(sums[i], a, b);
        /* The compiler must believe that the factors change, or it computes the loop beforehand. */
        __asm__ volatile("" : "+v"(a), "+v"(b));
    }
    int32_t lanes[sizeof(vector) / 4];
    for (int i = 0; i < ACCUMULATORS; i++) {
        memcpy(lanes, &sums[i], sizeof lanes);
        own->sink += (uint64_t)lanes[0];
    }
    return NULL;
}

static double timed(void *(*work)(void *), struct share *shares, int threads) {
    pthread_t started[threads];
    double begin = now();
    for (int i = 0; i < threads; i++) pthread_create(&started[i], NULL, work, &shares[i]);
    for (int i = 0; i < threads; i++) pthread_join(started[i], NULL);
    return now() - begin;
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    int threads = atoi(argv[1]), rounds = atoi(argv[3]);
    size_t bytes = (size_t)atol(argv[2]) << 20, each = bytes / threads / 64 * 64;
    struct share shares[threads];
    for (int i = 0; i < threads; i++) {
        uint64_t *data = aligned_alloc(64, each);
        if (!data) return 1;
        memset(data, i + 1, each);
        shares[i] = (struct share){data, each / sizeof(uint64_t), 0};
    }
    double operations = 2.0 * sizeof(vector) * ACCUMULATORS * TURNS * threads;
    for (int round = 0; round < rounds; round++) {
        double reading = timed(reads, shares, threads);
        double computing = timed(multiplies, shares, threads);
        printf("%.6g %.6g\n", (double)each * threads / reading, operations / computing);
        fflush(stdout);
    }
    return 0;
}
