/* Preloaded into a real server: its wall clock is the number of microseconds since 1970 in a file, which a test
 * writes. The monotonic clock, by which the server's timers run, stays what it is. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const int64_t *micros;

__attribute__((constructor)) static void open_clock(void) {
    const char *path = getenv("SIM_CLOCK");
    int file = path ? open(path, O_RDONLY) : -1;
    void *page = file < 0 ? MAP_FAILED : mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    if (page != MAP_FAILED) micros = page;
}

static int real(clockid_t id, struct timespec *ts) { return syscall(SYS_clock_gettime, id, ts); }

int clock_gettime(clockid_t id, struct timespec *ts) {
    if (id != CLOCK_REALTIME || !micros) return real(id, ts);
    int64_t now = *micros;
    ts->tv_sec = now / 1000000;
    ts->tv_nsec = now % 1000000 * 1000;
    return 0;
}

int gettimeofday(struct timeval *restrict tv, void *restrict tz) {
    struct timespec now;
    (void)tz;
    clock_gettime(CLOCK_REALTIME, &now);
    tv->tv_sec = now.tv_sec;
    tv->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *seconds) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (seconds) *seconds = now.tv_sec;
    return now.tv_sec;
}
