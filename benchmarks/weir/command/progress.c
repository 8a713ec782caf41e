/* progress.c: see progress.h. */
#include "progress.h"

#include <stdio.h>
#include <unistd.h>

void progress_start(struct progress *progress, size_t count, bool quiet)
{
    *progress =
        (struct progress){.lock = PTHREAD_MUTEX_INITIALIZER, .wanted = !quiet && isatty(STDERR_FILENO), .count = count};
}

void progress_show(void *ctx, double share)
{
    const struct progress_source *source = ctx;
    struct progress *progress = source->progress;
    (void)pthread_mutex_lock(&progress->lock);
    if (progress->wanted && source->number == progress->next) {
        (void)fputs("\r", stderr);
        if (progress->count > 1) {
            (void)fprintf(stderr, "%zu of %zu, ", source->number + 1, progress->count);
        }
        (void)fprintf(stderr, "%s: %s %3.0f %%\033[K", source->trace, source->strategy, share * 100.0);
        (void)fflush(stderr);
        progress->shown = true;
    }
    (void)pthread_mutex_unlock(&progress->lock);
}

void progress_count(void *ctx, double share)
{
    struct progress_counter *counter = ctx;
    struct progress *progress = counter->progress;
    (void)share;
    (void)pthread_mutex_lock(&progress->lock);
    counter->ended++;
    if (progress->wanted) {
        (void)fprintf(stderr, "\r%s: replay %zu\033[K", counter->trace, counter->ended);
        (void)fflush(stderr);
        progress->shown = true;
    }
    (void)pthread_mutex_unlock(&progress->lock);
}

void progress_clear(struct progress *progress, size_t next)
{
    (void)pthread_mutex_lock(&progress->lock);
    if (progress->shown) {
        (void)fputs("\r\033[K", stderr);
    }
    progress->shown = false;
    progress->next = next;
    (void)pthread_mutex_unlock(&progress->lock);
}
