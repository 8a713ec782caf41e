/* half.h: float16 as bits, without compiler support, so that results are the same on every machine. */
#ifndef WEIR_ASCENDCL_HALF_H
#define WEIR_ASCENDCL_HALF_H

#include <stdint.h>
#include <string.h>

/* Converts exactly. */
static inline float acl__half_to_float(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    const uint32_t exponent = (half >> 10) & 31u;
    uint32_t fraction = half & 1023u;
    uint32_t bits;
    if (exponent == 31) { /* infinity or NaN */
        bits = sign | 0x7f800000u | fraction << 13;
    } else if (exponent > 0) {
        bits = sign | (exponent + 112) << 23 | fraction << 13;
    } else if (fraction == 0) {
        bits = sign;
    } else { /* a subnormal float16 is a normal float32 */
        uint32_t power = 113;
        while ((fraction & 1024u) == 0) {
            fraction <<= 1;
            power--;
        }
        bits = sign | power << 23 | (fraction & 1023u) << 13;
    }
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* Rounds to the nearest float16, ties to even. Values that are too large become infinity. */
static inline uint16_t acl__half_from_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) { /* NaN: stays a NaN, and quiet */
        return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 1023u));
    }
    if (magnitude >= 0x477ff000u) { /* 65520 or more */
        return (uint16_t)(sign | 0x7c00u);
    }
    uint32_t kept, rest, half; /* fraction bits that stay; those that are cut off; half a unit of the last place */
    if (magnitude >= 0x38800000u) {
        kept = (magnitude - 0x38000000u) >> 13;
        rest = magnitude & 0x1fffu;
        half = 0x1000u;
    } else {
        const uint32_t shift = 126 - (magnitude >> 23);
        if (shift > 25) { /* less than half of the smallest subnormal float16 */
            return sign;
        }
        const uint32_t fraction = (magnitude & 0x7fffffu) | (magnitude >= 0x800000u ? 0x800000u : 0u);
        kept = shift > 24 ? 0 : fraction >> shift;
        rest = fraction & ((1u << shift) - 1);
        half = 1u << (shift - 1);
    }
    if (rest > half || (rest == half && (kept & 1u) != 0)) {
        kept++; /* a carry out of the fraction raises the exponent, which is the right result too */
    }
    return (uint16_t)(sign | kept);
}

#endif
