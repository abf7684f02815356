/* registry.c: built-in cuts, and stored ones with everything that is checked before they are loaded. */
#include "cpu/registry.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <nettle/sha2.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "builtin_cuts.h"
#include "program/fingerprint.h"

static bool __attribute__((format(printf, 2, 3))) refuse(lap_found_cut *found, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(found->why, sizeof found->why, format, arguments);
  va_end(arguments);
  return false;
}

/* ---- the seal ---- */

static const char seal_magic[8] = {'l', 'a', 'p', 'c', 'u', 't', '\r', '\n'};

enum {
  SEAL_FINGERPRINT = 8, /* covers structure and sources */
  SEAL_BYTES = 24,      /* of the object, 64 bits */
  SEAL_HASH = 32,
  MAX_OBJECT_BYTES = 64 << 20
};

/* Of everything before it, the seal's own first part included. */
static void hash_object(const unsigned char *data, size_t bytes, const unsigned char *seal,
                        uint8_t digest[SHA256_DIGEST_SIZE]) {
  struct sha256_ctx hash;
  sha256_init(&hash);
  sha256_update(&hash, bytes, data);
  sha256_update(&hash, SEAL_HASH, seal);
  sha256_digest(&hash, SHA256_DIGEST_SIZE, digest);
}

void lap_registry_seal(const char *fingerprint, const unsigned char *data, size_t bytes,
                       unsigned char seal[LAP_CUT_SEAL_BYTES]) {
  uint64_t length = bytes;
  memcpy(seal, seal_magic, sizeof seal_magic);
  memcpy(seal + SEAL_FINGERPRINT, fingerprint, LAP_PLAN_FINGERPRINT_BYTES - 1);
  memcpy(seal + SEAL_BYTES, &length, sizeof length);
  hash_object(data, bytes, seal, seal + SEAL_HASH);
}

static bool check_seal(const char *path, const unsigned char *data, size_t bytes, lap_found_cut *found) {
  if (bytes < LAP_CUT_SEAL_BYTES) return refuse(found, "%s: is too short for a cut", path);
  const unsigned char *seal = data + bytes - LAP_CUT_SEAL_BYTES;
  uint8_t digest[SHA256_DIGEST_SIZE];
  if (memcmp(seal, seal_magic, sizeof seal_magic) != 0)
    return refuse(found, "%s: is damaged or no cut: it has no seal at its end", path);
  if (memcmp(seal + SEAL_FINGERPRINT, found->fingerprint, LAP_PLAN_FINGERPRINT_BYTES - 1) != 0)
    return refuse(found, "%s: is the cut of %.16s", path, (const char *)seal + SEAL_FINGERPRINT);
  hash_object(data, bytes - LAP_CUT_SEAL_BYTES, seal, digest);
  if (lap_load_u64(seal + SEAL_BYTES) != bytes - LAP_CUT_SEAL_BYTES ||
      memcmp(digest, seal + SEAL_HASH, sizeof digest) != 0)
    return refuse(found, "%s: is damaged: its checksum is wrong", path);
  return true;
}

/* ---- who can have written it ---- */

static bool trusted(const struct stat *status) {
  return (status->st_uid == geteuid() || status->st_uid == 0) && !(status->st_mode & (S_IWGRP | S_IWOTH));
}

static bool check_directory(const char *path, lap_found_cut *found) {
  struct stat status;
  if (lstat(path, &status) != 0) return refuse(found, "%s: %s", path, strerror(errno));
  if (!S_ISDIR(status.st_mode)) return refuse(found, "%s: is not a directory", path);
  if (!trusted(&status))
    return refuse(
        found, "%s: belongs to somebody else, or others may write to it: nothing is loaded from there", path);
  return true;
}

bool lap_registry_trusts(const char *path, lap_found_cut *found) {
  char *copy = strdup(path);
  bool fine = copy != NULL || refuse(found, "%s: out of memory", path);
  for (int level = 0; fine && level < 2; level++) {
    char *slash = strrchr(copy, '/');
    if (!slash || slash == copy) break;
    *slash = '\0';
    fine = check_directory(copy, found);
  }
  free(copy);
  return fine;
}

static bool read_object(int fd, size_t bytes, unsigned char *data) {
  for (size_t done = 0; done < bytes;) {
    ssize_t got = pread(fd, data + done, bytes - done, (off_t)done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    done += (size_t)got;
  }
  return true;
}

static bool check_object(const char *path, int fd, lap_found_cut *found) {
  struct stat status;
  if (fstat(fd, &status) != 0) return refuse(found, "%s: %s", path, strerror(errno));
  if (!S_ISREG(status.st_mode)) return refuse(found, "%s: is not a regular file", path);
  if (!trusted(&status))
    return refuse(found, "%s: belongs to somebody else, or others may write to it: it is not loaded", path);
  if (status.st_size > MAX_OBJECT_BYTES) return refuse(found, "%s: is too large for a cut", path);
  size_t bytes = (size_t)status.st_size;
  unsigned char *data = malloc(bytes + 1);
  if (!data) return refuse(found, "%s: out of memory", path);
  bool fine = read_object(fd, bytes, data) || refuse(found, "%s: cannot be read", path);
  fine = fine && check_seal(path, data, bytes, found);
  free(data);
  return fine;
}

/* ---- loading ---- */

static bool fits(const lap_cut *code, const char *structure, const char *isa) {
  return strcmp(code->sources, lap_cut_sources) == 0 && strcmp(code->structure, structure) == 0 &&
         strcmp(code->isa, isa) == 0;
}

enum {
  DESCRIPTOR_NAME = 128
};

/* A path of the open file. The dynamic linker takes a path that it has seen for the object that it then
 * loaded by it, and descriptors' numbers come again: so the path is spelled in a way of its own each time. */
static void name_descriptor(int fd, char name[DESCRIPTOR_NAME]) {
  static atomic_uint names;
  char *end = stpcpy(name, "/proc/self");
  for (unsigned number = atomic_fetch_add(&names, 1); number; number >>= 1)
    end = stpcpy(end, number & 1 ? "/." : "/");
  snprintf(end, (size_t)(name + DESCRIPTOR_NAME - end), "/fd/%d", fd);
}

/* The file that was checked is the one that is loaded, by its descriptor. */
static bool link_object(const char *path, int fd, const char *isa, lap_found_cut *found) {
  char name[DESCRIPTOR_NAME];
  name_descriptor(fd, name);
  void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!handle) return refuse(found, "%s: cannot be loaded: %s", path, dlerror());
  snprintf(name, sizeof name, "lap_cut_%s_%s", found->structure, isa);
  const lap_cut *code = dlsym(handle, name);
  char *copy = strdup(path);
  if (!code || !copy || !fits(code, found->structure, isa)) {
    free(copy);
    dlclose(handle);
    return refuse(found, "%s: holds no code for %s", path, isa);
  }
  found->code = code;
  found->handle = handle;
  found->path = copy;
  found->why[0] = '\0';
  return true;
}

bool lap_registry_load(const char *path, const char *isa, lap_found_cut *found) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return refuse(found, "%s: %s", path, strerror(errno));
  bool loaded =
      lap_registry_trusts(path, found) && check_object(path, fd, found) && link_object(path, fd, isa, found);
  close(fd);
  return loaded;
}

void lap_registry_find(const char *isa, lap_found_cut *found) {
  bool elsewhere = false; /* built in, for another instruction set */
  for (size_t i = 0; builtin_cuts[i]; i++) {
    if (fits(builtin_cuts[i], found->structure, isa)) {
      found->code = builtin_cuts[i];
      return;
    }
    elsewhere |= strcmp(builtin_cuts[i]->structure, found->structure) == 0;
  }
  char *path = lap_registry_object(found->fingerprint, isa);
  if (path && access(path, F_OK) == 0)
    lap_registry_load(path, isa, found);
  else if (elsewhere)
    refuse(found, "there is no cut of this checkpoint (%s) for %s, only for others; `lapidary cut` makes one",
           found->fingerprint, isa);
  else
    refuse(found, "there is no cut of this checkpoint (%s); `lapidary cut` makes one", found->fingerprint);
  free(path);
}

void lap_registry_release(lap_found_cut *found) {
  if (found->handle) dlclose(found->handle);
  free(found->path);
  *found = (lap_found_cut){0};
}

char *lap_registry_directory(const char *fingerprint) {
  const char *cache = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
  const char *slash = fingerprint ? "/" : "";
  char *path = NULL;
  int length = -1;
  if (!fingerprint) fingerprint = "";
  if (cache && cache[0] == '/') /* relative ones are to be ignored, says the XDG specification */
    length = asprintf(&path, "%s/lapidary%s%s", cache, slash, fingerprint);
  else if (home && home[0] == '/')
    length = asprintf(&path, "%s/.cache/lapidary%s%s", home, slash, fingerprint);
  return length < 0 ? NULL : path;
}

char *lap_registry_object(const char *fingerprint, const char *isa) {
  char *directory = lap_registry_directory(fingerprint), *path = NULL;
  if (directory && asprintf(&path, "%s/cut_%s.so", directory, isa) < 0) path = NULL;
  free(directory);
  return path;
}
