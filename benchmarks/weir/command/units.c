/* units.c: see units.h. */
#include "units.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool unit_shift(const char *suffix, unsigned *shift)
{
    static const char letters[] = "KMGT";
    while (*suffix == ' ') {
        suffix++;
    }
    if (*suffix == '\0' || strcasecmp(suffix, "B") == 0) {
        *shift = 0;
        return true;
    }
    for (unsigned i = 0; letters[i] != '\0'; i++) {
        char forms[3][4] = {{letters[i], '\0'}, {letters[i], 'B', '\0'}, {letters[i], 'i', 'B', '\0'}};
        for (unsigned k = 0; k < 3; k++) {
            if (strcasecmp(suffix, forms[k]) == 0) {
                *shift = 10 * (i + 1);
                return true;
            }
        }
    }
    return false;
}

bool parse_size(const char *text, uint64_t *bytes)
{
    char *end = NULL;
    unsigned shift = 0;
    if (*text < '0' || *text > '9') {
        return false;
    }
    errno = 0;
    unsigned long long whole = strtoull(text, &end, 10);
    double fraction = 0.0;
    if (errno == 0 && *end == '.') {
        fraction = strtod(end, &end);
    }
    if (errno != 0 || !unit_shift(end, &shift) || (shift > 0 && whole >> (63 - shift) != 0)) {
        return false;
    }
    *bytes = ((uint64_t)whole << shift) + (uint64_t)(fraction * (double)(UINT64_C(1) << shift));
    return true;
}

/* Returns the nanoseconds of a unit; 0 if there is no such unit. */
static uint64_t time_unit(const char *suffix)
{
    static const struct {
        const char *name;
        uint64_t ns;
    } units[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}, {"min", UINT64_C(60000000000)}};
    while (*suffix == ' ') {
        suffix++;
    }
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(suffix, units[i].name) == 0) {
            return units[i].ns;
        }
    }
    return 0;
}

bool parse_time(const char *text, uint64_t *ns)
{
    char *end = NULL;
    if (*text < '0' || *text > '9') {
        return false;
    }
    errno = 0;
    const unsigned long long whole = strtoull(text, &end, 10);
    const char *digits = *end == '.' ? end + 1 : end;
    const size_t digit_count = *end == '.' ? strspn(digits, "0123456789") : 0;
    const uint64_t unit = time_unit(digits + digit_count);
    if (errno != 0 || (*end == '.' && digit_count == 0) || unit == 0 || whole >= UINT64_MAX / unit) {
        return false;
    }
    uint64_t fraction = 0;
    uint64_t share = unit;
    for (size_t i = 0; i < digit_count; i++) {
        fraction += share * (uint64_t)(digits[i] - '0') / 10;
        share /= 10;
    }
    *ns = whole * unit + fraction;
    return true;
}

bool parse_number(const char *text, uint64_t *number)
{
    char *end = NULL;
    if (*text < '0' || *text > '9') {
        return false;
    }
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0') {
        return false;
    }
    *number = value;
    return true;
}

static const char *scaled(char *text, double value, double step, const char *const *units, size_t count)
{
    size_t unit = 0;
    while (value >= step && unit + 1 < count) {
        value /= step;
        unit++;
    }
    const char *format = unit == 0 ? "%.0f %s" : value < 10.0 ? "%.2f %s" : value < 100.0 ? "%.1f %s" : "%.0f %s";
    (void)snprintf(text, UNIT_TEXT, format, value, units[unit]);
    return text;
}

const char *format_size(char *text, uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    return scaled(text, (double)bytes, 1024.0, units, sizeof(units) / sizeof(units[0]));
}

const char *format_time(char *text, uint64_t ns)
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    return scaled(text, (double)ns, 1000.0, units, sizeof(units) / sizeof(units[0]));
}

const char *format_count(char *text, uint64_t number)
{
    char digits[UNIT_TEXT];
    int length = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)number);
    char *out = text;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0) {
            *out++ = ',';
        }
        *out++ = digits[i];
    }
    *out = '\0';
    return text;
}
