/* formats.c: one pattern for each format that can be said as one.
 *
 * Dates exist: months have their days, the 29th of February its leap years, years go from 0001 to 9999.
 * Seconds go to 59. Host names and addresses are limited in length, so that they end. */
#include "grammar/formats.h"

#include <string.h>

#define YEAR      "([0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"
#define LEAP_YEAR "([0-9]{2}(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)"
#define DAY_01_28 "(0[1-9]|1[0-9]|2[0-8])"
#define LONG      "(0[13578]|1[02])-31"
#define NOT_SHORT "(0[13-9]|1[0-2])-(29|30)"
#define DATE      "(" YEAR "-((0[1-9]|1[0-2])-" DAY_01_28 "|" NOT_SHORT "|" LONG ")|" LEAP_YEAR "-02-29)"
#define TIME      "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
#define LABEL     "[A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?"
#define HOST      LABEL "(\\." LABEL "){0,6}"
#define OCTET     "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define H16       "[0-9A-Fa-f]{1,4}"
#define ATOM      "[A-Za-z0-9_+-]{1,32}"

/* Eight groups, or fewer around one `::`. */
#define IPV6                                                                                           \
  "((" H16 ":){7}" H16 "|::(" H16 "(:" H16 "){0,6})?|" H16 "::(" H16 "(:" H16 "){0,5})?|" H16 "(:" H16 \
  "){1}::(" H16 "(:" H16 "){0,4})?|" H16 "(:" H16 "){2}::(" H16 "(:" H16 "){0,3})?|" H16 "(:" H16      \
  "){3}::(" H16 "(:" H16 "){0,2})?|" H16 "(:" H16 "){4}::(" H16 "(:" H16 "){0,1})?|" H16 "(:" H16      \
  "){5}::(" H16 ")?|" H16 "(:" H16 "){6}::)"

static const struct {
  const char *name, *pattern;
} formats[] = {
    {"date", "^" DATE "$"},
    {"time", "^" TIME "$"},
    {"date-time", "^" DATE "T" TIME "$"},
    {"duration",
     "^P([0-9]{1,4}W|([0-9]{1,4}Y([0-9]{1,4}M([0-9]{1,4}D)?)?|[0-9]{1,4}M([0-9]{1,4}D)?|[0-9]{1,4}D)"
     "(T([0-9]{1,4}H([0-9]{1,4}M([0-9]{1,4}S)?)?|[0-9]{1,4}M([0-9]{1,4}S)?|[0-9]{1,4}S))?|"
     "T([0-9]{1,4}H([0-9]{1,4}M([0-9]{1,4}S)?)?|[0-9]{1,4}M([0-9]{1,4}S)?|[0-9]{1,4}S))$"},
    {"uuid", "^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$"},
    {"email", "^" ATOM "(\\." ATOM "){0,4}@" LABEL "(\\." LABEL "){1,6}$"},
    {"hostname", "^" HOST "$"},
    {"ipv4", "^(" OCTET "\\.){3}" OCTET "$"},
    {"ipv6", "^" IPV6 "$"},
};

const char *lap_format_pattern(const char *format) {
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
    if (strcmp(formats[i].name, format) == 0) return formats[i].pattern;
  return NULL;
}
