/* embedded.h: files that were put into the program when it was built (scripts/embed.cmake). */
#ifndef LAP_BASE_EMBEDDED_H
#define LAP_BASE_EMBEDDED_H

#include <stddef.h>

typedef struct lap_embedded {
  const char *path; /* below the folder that they were taken from */
  const unsigned char *data;
  size_t bytes;
} lap_embedded;

#endif
