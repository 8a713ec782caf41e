/* bindings/torch/src/settings.h: the text of WEIR_TORCH as a struct. */
#ifndef WEIR_TORCH_SETTINGS_H
#define WEIR_TORCH_SETTINGS_H

#include <weir/pool.h>

struct torch_settings {
    weir_pool_config pool;  /* without a device */
    uint64_t reserve_bytes; /* UINT64_MAX = a sixteenth of the device */
    int pages;              /* a value of weir__torch_runtime_pages; 0 = the default */
    bool report;
    char record[1024]; /* a file's name; "" = no recording */
};

/* Reads a text like that of WEIR_TORCH into *settings; NULL or "" gives the defaults. On failure returns false, writes
 * a sentence that names the unreadable part to `why` (of `size` bytes) and leaves *settings unchanged. */
bool weir__torch_settings_read(const char *text, struct torch_settings *settings, char *why, size_t size);

#endif
