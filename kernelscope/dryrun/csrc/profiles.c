/* What a device of each compute capability has.
 *
 * Limits by compute capability: the table "Technical Specifications per Compute Capability" of the CUDA C++
 * Programming Guide. SM counts, caches, clocks and memory: one representative product of each, from its data sheet,
 * rounded; nothing is computed from clocks. */
#include "driver.h"

#define KIB 1024
#define MIB (1024 * KIB)
#define GIB ((size_t)1024 * MIB)

static const Profile profiles[] = {
    /* T4 */
    {.capability = 75, .sm_count = 40, .threads_per_sm = 1024, .blocks_per_sm = 16,
     .shared_per_sm = 64 * KIB, .shared_per_block_optin = 64 * KIB, .shared_reserved = 0, .shared_granularity = 256,
     .l2_bytes = 4 * MIB, .clock_khz = 1590000, .memory_clock_khz = 5001000, .memory_bus_bits = 256,
     .single_to_double_ratio = 32, .memory_bytes = 16 * GIB},
    /* A100 */
    {.capability = 80, .sm_count = 108, .threads_per_sm = 2048, .blocks_per_sm = 32,
     .shared_per_sm = 164 * KIB, .shared_per_block_optin = 163 * KIB, .shared_reserved = KIB,
     .shared_granularity = 128, .l2_bytes = 40 * MIB, .clock_khz = 1410000, .memory_clock_khz = 1215000,
     .memory_bus_bits = 5120, .single_to_double_ratio = 2, .memory_bytes = 40 * GIB},
    /* GeForce RTX 3090 */
    {.capability = 86, .sm_count = 82, .threads_per_sm = 1536, .blocks_per_sm = 16,
     .shared_per_sm = 100 * KIB, .shared_per_block_optin = 99 * KIB, .shared_reserved = KIB,
     .shared_granularity = 128, .l2_bytes = 6 * MIB, .clock_khz = 1695000, .memory_clock_khz = 9751000,
     .memory_bus_bits = 384, .single_to_double_ratio = 32, .memory_bytes = 24 * GIB},
    /* GeForce RTX 4090 */
    {.capability = 89, .sm_count = 128, .threads_per_sm = 1536, .blocks_per_sm = 24,
     .shared_per_sm = 100 * KIB, .shared_per_block_optin = 99 * KIB, .shared_reserved = KIB,
     .shared_granularity = 128, .l2_bytes = 72 * MIB, .clock_khz = 2520000, .memory_clock_khz = 10501000,
     .memory_bus_bits = 384, .single_to_double_ratio = 64, .memory_bytes = 24 * GIB},
    /* H100 SXM */
    {.capability = 90, .sm_count = 132, .threads_per_sm = 2048, .blocks_per_sm = 32,
     .shared_per_sm = 228 * KIB, .shared_per_block_optin = 227 * KIB, .shared_reserved = KIB,
     .shared_granularity = 128, .l2_bytes = 50 * MIB, .clock_khz = 1980000, .memory_clock_khz = 2619000,
     .memory_bus_bits = 5120, .single_to_double_ratio = 2, .memory_bytes = 80 * GIB},
    /* B200 */
    {.capability = 100, .sm_count = 148, .threads_per_sm = 2048, .blocks_per_sm = 32,
     .shared_per_sm = 228 * KIB, .shared_per_block_optin = 227 * KIB, .shared_reserved = KIB,
     .shared_granularity = 128, .l2_bytes = 126 * MIB, .clock_khz = 1965000, .memory_clock_khz = 3996000,
     .memory_bus_bits = 8192, .single_to_double_ratio = 2, .memory_bytes = 180 * GIB},
    /* GeForce RTX 5090 */
    {.capability = 120, .sm_count = 170, .threads_per_sm = 1536, .blocks_per_sm = 24,
     .shared_per_sm = 100 * KIB, .shared_per_block_optin = 99 * KIB, .shared_reserved = KIB,
     .shared_granularity = 128, .l2_bytes = 96 * MIB, .clock_khz = 2407000, .memory_clock_khz = 14001000,
     .memory_bus_bits = 512, .single_to_double_ratio = 64, .memory_bytes = 32 * GIB},
};

const Profile *profile_of(int capability)
{
    for (size_t i = 0; i < sizeof profiles / sizeof *profiles; i++)
        if (profiles[i].capability == capability) return &profiles[i];
    return NULL;
}
