/* formats.h: the formats of strings that are enforced, as patterns. */
#ifndef LAP_GRAMMAR_FORMATS_H
#define LAP_GRAMMAR_FORMATS_H

/* The pattern of a format, or NULL: then it is a remark that restricts nothing. */
const char *lap_format_pattern(const char *format);

#endif
