// Preloaded into a process, it writes down in one order what the process does to the files of one directory and what
// it says on standard output, so that a test can replay it up to any moment and let the power fail there. Syncs are
// written down but not made; some of them can be made to fail.
//
// SHIM_DIRECTORY  whose files count
// SHIM_LOG        where it is written down
// SHIM_FAIL       "first count": so many syncs fail with EIO, beginning with this one

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { FILES = 1024, PATH = 512 };

// The head of a record; the path and the data follow. `operation` is one of
// 'W' write, 'T' truncate to offset, 'S' sync, 'F' failed sync, 'U' unlink, 'R' rename to the path in the data, 'O' output.
struct head {
    uint32_t operation;
    uint32_t path_bytes;
    uint64_t offset;
    uint64_t data_bytes;
};

static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;
static int log_fd = -1;
static const char *directory;
static char paths[FILES][PATH];
static long syncs, fail_first, fail_count;

__attribute__((constructor)) static void begin(void) {
    const char *log = getenv("SHIM_LOG");
    const char *fail = getenv("SHIM_FAIL");
    directory = getenv("SHIM_DIRECTORY");
    if (!log || !directory) return;
    if (fail) sscanf(fail, "%ld %ld", &fail_first, &fail_count);
    int fd = syscall(SYS_openat, AT_FDCWD, log, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    log_fd = fcntl(fd, F_DUPFD_CLOEXEC, FILES);
    syscall(SYS_close, fd);
}

static void record(char operation, const char *path, uint64_t offset, const void *data, uint64_t bytes) {
    if (log_fd < 0) return;
    struct head head = {operation, strlen(path), offset, bytes};
    struct iovec parts[3] = {{&head, sizeof head}, {(void *)path, head.path_bytes}, {(void *)data, bytes}};
    syscall(SYS_writev, log_fd, parts, 3);
}

static int counts(int fd) { return fd >= 0 && fd < FILES && paths[fd][0]; }

static int is_inside(const char *path) { return directory && !strncmp(path, directory, strlen(directory)); }

static int opened(int fd, const char *path, int flags) {
    if (fd < 0 || fd >= FILES) return fd;
    pthread_mutex_lock(&order);
    paths[fd][0] = 0;
    if (is_inside(path) && !(flags & O_DIRECTORY)) {
        strncpy(paths[fd], path, PATH - 1);
        if (flags & O_TRUNC) record('T', paths[fd], 0, NULL, 0);
    }
    pthread_mutex_unlock(&order);
    return fd;
}

#define OPEN(name, path, flags, call)   \
    va_list rest;                       \
    va_start(rest, flags);              \
    int mode = va_arg(rest, int);       \
    va_end(rest);                       \
    return opened(call, path, flags)

int open(const char *path, int flags, ...) {
    OPEN(open, path, flags, syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}
int open64(const char *path, int flags, ...) {
    OPEN(open64, path, flags, syscall(SYS_openat, AT_FDCWD, path, flags | O_LARGEFILE, mode));
}

int close(int fd) {
    if (fd >= 0 && fd < FILES) paths[fd][0] = 0;
    return syscall(SYS_close, fd);
}

ssize_t pwrite64(int fd, const void *data, size_t bytes, off_t offset) {
    if (!counts(fd)) return syscall(SYS_pwrite64, fd, data, bytes, offset);
    pthread_mutex_lock(&order);
    ssize_t written = syscall(SYS_pwrite64, fd, data, bytes, offset);
    if (written > 0) record('W', paths[fd], offset, data, written);
    pthread_mutex_unlock(&order);
    return written;
}
ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset) { return pwrite64(fd, data, bytes, offset); }

ssize_t write(int fd, const void *data, size_t bytes) {
    if (fd != STDOUT_FILENO && !counts(fd)) return syscall(SYS_write, fd, data, bytes);
    pthread_mutex_lock(&order);
    off_t offset = lseek(fd, 0, SEEK_CUR);
    ssize_t written = syscall(SYS_write, fd, data, bytes);
    if (written > 0 && fd == STDOUT_FILENO) record('O', "", 0, data, written);
    else if (written > 0) record('W', paths[fd], offset, data, written);
    pthread_mutex_unlock(&order);
    return written;
}

static int sync_file(int call, int fd) {
    if (!counts(fd)) return syscall(call, fd);
    pthread_mutex_lock(&order);
    syncs++;
    int fails = fail_count && syncs >= fail_first && syncs < fail_first + fail_count;
    record(fails ? 'F' : 'S', paths[fd], 0, NULL, 0);
    pthread_mutex_unlock(&order);
    if (fails) errno = EIO;
    return fails ? -1 : 0;
}
int fsync(int fd) { return sync_file(SYS_fsync, fd); }
int fdatasync(int fd) { return sync_file(SYS_fdatasync, fd); }

int ftruncate64(int fd, off_t length) {
    if (!counts(fd)) return syscall(SYS_ftruncate, fd, length);
    pthread_mutex_lock(&order);
    int result = syscall(SYS_ftruncate, fd, length);
    if (!result) record('T', paths[fd], length, NULL, 0);
    pthread_mutex_unlock(&order);
    return result;
}
int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }

int rename(const char *from, const char *to) {
    pthread_mutex_lock(&order);
    int result = syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
    if (!result && is_inside(from)) record('R', from, 0, to, strlen(to));
    pthread_mutex_unlock(&order);
    return result;
}

int unlink(const char *path) {
    pthread_mutex_lock(&order);
    int result = syscall(SYS_unlink, path);
    if (!result && is_inside(path)) record('U', path, 0, NULL, 0);
    pthread_mutex_unlock(&order);
    return result;
}
