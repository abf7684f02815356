/* svg.c: results as a picture: a roofline above, the decode rate over depth below.
 *
 * Roofline: across, multiplications for each byte read; up, multiplications a second. A machine can be no
 * faster than its memory delivers (the slope) nor than it multiplies (the level). Points are medians, the
 * bars behind them reach from the smallest to the largest value. Colours stand for series: a KV setting
 * with a number of threads and, where paths are compared, a path. */
#include <math.h>
#include <string.h>

#include "bench/bench.h"
#include "engine/passes.h"

enum {
  WIDTH = 1000,
  HEIGHT = 940,
  LEFT = 80,
  PLOT_WIDTH = 660,
  PLOT_HEIGHT = 340,
  FIRST_TOP = 104,
  SECOND_TOP = 534,
  LEGEND_LEFT = LEFT + PLOT_WIDTH + 24,
  LEGEND_STEP = 20,
  MOST_LABELS = 14,
  BAND_STEPS = 60
};

#define SMALL " font-size=\"11\" fill=\"#333333\""

static const double GIGA = 1e-9;

/* Told apart by colour-blind readers too (Okabe and Ito). */
static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                      "#56b4e9", "#e69f00", "#7a6a00", "#000000"};

typedef struct plot {
  FILE *out;
  double top;
  bool logarithmic;
  double x_low, x_high, y_low, y_high;
} plot;

typedef struct series {
  int index;
  int group, side;
  int threads;
} series;

/* ---- scales ---------------------------------------------------------------------------------- */

static double share(const plot *p, double low, double high, double value) {
  return p->logarithmic ? log(value / low) / log(high / low) : (value - low) / (high - low);
}

static double x_of(const plot *p, double value) {
  return LEFT + PLOT_WIDTH * share(p, p->x_low, p->x_high, value);
}

static double y_of(const plot *p, double value) {
  return p->top + PLOT_HEIGHT * (1 - share(p, p->y_low, p->y_high, value));
}

/* The largest of 1, 2, 5 times a power of ten that is at most `value` (> 0). */
static double round_down(double value) {
  double power = pow(10, floor(log10(value)));
  double digit = value / power;
  return power * (digit >= 5 ? 5 : digit >= 2 ? 2 : 1);
}

/* The next of them; `value` is one. */
static double next_round(double value) {
  double digit = value / pow(10, floor(log10(value) + 1e-9));
  return value * (digit > 1.5 && digit < 3 ? 2.5 : 2);
}

static double round_up(double value) {
  double down = round_down(value);
  return down < value * (1 - 1e-9) ? next_round(down) : down;
}

static void widen(double *low, double *high, double value) {
  if (value < *low) *low = value;
  if (value > *high) *high = value;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

/* As text of XML: ASCII, what is special in it spelled out. */
static void put_escaped(FILE *out, const char *text) {
  for (; *text; text++) {
    if (*text == '&')
      fputs("&amp;", out);
    else if (*text == '<')
      fputs("&lt;", out);
    else if (*text == '>')
      fputs("&gt;", out);
    else
      fputc(*text >= ' ' && *text <= '~' ? *text : '?', out);
  }
}

static void put_label(FILE *out, double x, double y, const char *anchor, const char *more, const char *text) {
  fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s>", x, y, anchor, more);
  put_escaped(out, text);
  fputs("</text>\n", out);
}

static void put_line(FILE *out, double x1, double y1, double x2, double y2, const char *stroke,
                     const char *more) {
  fprintf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"%s/>\n", x1, y1, x2, y2,
          stroke, more);
}

static void put_tick_x(const plot *p, double value) {
  char text[32];
  snprintf(text, sizeof text, "%.10g", value);
  put_line(p->out, x_of(p, value), p->top, x_of(p, value), p->top + PLOT_HEIGHT, "#e4e4e4", "");
  put_label(p->out, x_of(p, value), p->top + PLOT_HEIGHT + 18, "middle", "", text);
}

static void put_tick_y(const plot *p, double value) {
  char text[32];
  snprintf(text, sizeof text, "%.10g", value);
  put_line(p->out, LEFT, y_of(p, value), LEFT + PLOT_WIDTH, y_of(p, value), "#e4e4e4", "");
  put_label(p->out, LEFT - 8, y_of(p, value) + 4, "end", "", text);
}

static void put_frame(const plot *p, const char *title, const char *across, const char *up) {
  char turned[96];
  fprintf(p->out, "<rect x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"#888888\"/>\n",
          LEFT, p->top, PLOT_WIDTH, PLOT_HEIGHT);
  put_label(p->out, LEFT, p->top - 12, "start", " font-size=\"16\" font-weight=\"bold\"", title);
  put_label(p->out, LEFT + PLOT_WIDTH / 2.0, p->top + PLOT_HEIGHT + 40, "middle", "", across);
  snprintf(turned, sizeof turned, " transform=\"rotate(-90 22 %.1f)\"", p->top + PLOT_HEIGHT / 2.0);
  put_label(p->out, 22, p->top + PLOT_HEIGHT / 2.0, "middle", turned, up);
}

/* A median with its spread. Prompts are squares, decodes circles. */
static void put_point(const plot *p, double x, const lap_bench_sample *y, lap_bench_kind kind,
                      const char *colour) {
  double at = x_of(p, x), middle = y_of(p, lap_bench_sample_median(y));
  double low = y_of(p, lap_bench_sample_min(y)), high = y_of(p, lap_bench_sample_max(y));
  put_line(p->out, at, low, at, high, colour, " stroke-width=\"2\"");
  put_line(p->out, at - 5, low, at + 5, low, colour, " stroke-width=\"2\"");
  put_line(p->out, at - 5, high, at + 5, high, colour, " stroke-width=\"2\"");
  if (kind == LAP_BENCH_PROMPT)
    fprintf(p->out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"9\" height=\"9\" fill=\"%s\"/>\n", at - 4.5,
            middle - 4.5, colour);
  else
    fprintf(p->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"5\" fill=\"%s\"/>\n", at, middle, colour);
}

/* ---- series ---------------------------------------------------------------------------------- */

static int series_count(const lap_bench_request *request) {
  return request->groups * request->threads.count * request->sides;
}

static series series_at(const lap_bench_request *request, int index) {
  int side = index % request->sides, rest = index / request->sides;
  return (series){.index = index,
                  .group = rest / request->threads.count,
                  .side = side,
                  .threads = (int)request->threads.item[rest % request->threads.count]};
}

static bool belongs(const lap_bench_cell *cell, const series *s) {
  return cell->group == s->group && cell->threads == s->threads;
}

static const char *colour_of(const series *s) {
  return colours[(size_t)s->index % (sizeof colours / sizeof colours[0])];
}

static void name_series(const lap_bench_request *request, const series *s, char *text, size_t size) {
  const lap_bench_side *side = &request->side[s->group][s->side];
  int length = snprintf(text, size, "KV %s, %d thread%s", lap_kv_words[side->kv], s->threads,
                        s->threads == 1 ? "" : "s");
  if (request->compared == LAP_BENCH_PATHS)
    snprintf(text + length, size - (size_t)length, ", %s", lap_path_words[side->path]);
}

static void put_legend(const plot *p, const lap_bench_request *request) {
  char text[96];
  double y = p->top + 12;
  int count = series_count(request);
  for (int i = 0; i < count && i < MOST_LABELS; i++) {
    series s = series_at(request, i);
    name_series(request, &s, text, sizeof text);
    put_line(p->out, LEGEND_LEFT, y - 4, LEGEND_LEFT + 18, y - 4, colour_of(&s), " stroke-width=\"4\"");
    put_label(p->out, LEGEND_LEFT + 26, y, "start", "", text);
    y += LEGEND_STEP;
  }
  if (count <= MOST_LABELS) return;
  snprintf(text, sizeof text, "and %d more", count - MOST_LABELS);
  put_label(p->out, LEGEND_LEFT, y, "start", "", text);
}

/* ---- roofline -------------------------------------------------------------------------------- */

static double intensity_of(const lap_bench_rate *rate) {
  return rate->cost.operations / rate->cost.bytes;
}

static lap_bench_sample giga_operations(const lap_bench_rate *rate) {
  return lap_bench_sample_scaled(&rate->per_second, rate->cost.operations / (double)rate->tokens * GIGA);
}

/* Around all points, and the corners of the roof. */
static void fit_roofline(plot *p, const lap_bench_results *results, const lap_bench_sample *ceiling) {
  double read = lap_bench_sample_median(&ceiling[LAP_BENCH_CEILING_READ]);
  p->x_low = p->y_low = INFINITY;
  p->x_high = p->y_high = 0;
  for (int which = LAP_BENCH_CEILING_F32; which < LAP_BENCH_CEILINGS; which++) {
    widen(&p->y_low, &p->y_high, lap_bench_sample_max(&ceiling[which]) * GIGA);
    widen(&p->y_low, &p->y_high, lap_bench_sample_median(&ceiling[which]) * GIGA);
    widen(&p->x_low, &p->x_high, lap_bench_sample_median(&ceiling[which]) / read);
  }
  for (int i = 0; i < results->cells; i++)
    for (int side = 0; side < results->request->sides; side++)
      for (int kind = 0; kind < LAP_BENCH_KINDS; kind++) {
        const lap_bench_rate *rate = &results->cell[i].rate[side][kind];
        if (!rate->tokens) continue;
        lap_bench_sample y = giga_operations(rate);
        widen(&p->x_low, &p->x_high, intensity_of(rate));
        widen(&p->y_low, &p->y_high, lap_bench_sample_min(&y));
        widen(&p->y_low, &p->y_high, lap_bench_sample_max(&y));
      }
  p->x_low = round_down(p->x_low / 1.5);
  p->x_high = round_up(p->x_high * 1.5);
  p->y_low = round_down(p->y_low / 1.5);
  p->y_high = round_up(p->y_high * 1.5);
}

static void put_log_grid(const plot *p) {
  double x = p->x_low, y = p->y_low;
  while (x < p->x_high * 1.01) {
    put_tick_x(p, x);
    x = next_round(x);
  }
  while (y < p->y_high * 1.01) {
    put_tick_y(p, y);
    y = next_round(y);
  }
}

typedef struct roof {
  double read, level; /* GB/s, Gop/s */
} roof;

static double height_of(const roof *r, double x) {
  return r->read * x < r->level ? r->read * x : r->level;
}

/* Corners of the area between two roofs: along the higher one and back along the lower one. */
static void put_band(const plot *p, const roof *low, const roof *high) {
  fputs("<polygon fill=\"#eeeeee\" points=\"", p->out);
  for (int i = 0; i < 2 * BAND_STEPS; i++) {
    int step = i < BAND_STEPS ? i : 2 * BAND_STEPS - 1 - i;
    double x = p->x_low * pow(p->x_high / p->x_low, step / (BAND_STEPS - 1.0));
    double y = height_of(i < BAND_STEPS ? high : low, x);
    fprintf(p->out, "%s%.1f,%.1f", i ? " " : "", x_of(p, x), y_of(p, y > p->y_low ? y : p->y_low));
  }
  fputs("\"/>\n", p->out);
}

/* A level from where it meets the slope to the right edge; its name begins at `from`, left of the
 * prompts, `above` the line. */
static void put_level(const plot *p, const roof *r, double from, double above, const char *name,
                      const char *dashes) {
  char text[96];
  double corner = r->level / r->read > p->x_low ? r->level / r->read : p->x_low;
  put_line(p->out, x_of(p, corner), y_of(p, r->level), LEFT + PLOT_WIDTH, y_of(p, r->level), "#333333",
           dashes);
  snprintf(text, sizeof text, "%s %.1f Gop/s", name, r->level);
  put_label(p->out, x_of(p, from) + 16, y_of(p, r->level) - above, "start", SMALL, text);
}

/* The slope, from the lower or left edge to the higher level. Its name is turned along it. */
static void put_slope(const plot *p, const roof *r) {
  char text[96], more[160];
  double from = p->y_low / r->read > p->x_low ? p->y_low / r->read : p->x_low;
  double x1 = x_of(p, from), y1 = y_of(p, from * r->read);
  double x2 = x_of(p, r->level / r->read), y2 = y_of(p, r->level);
  double angle = atan2(y2 - y1, x2 - x1) * 180 / 3.14159265358979;
  double x = x1 + (x2 - x1) * 0.08, y = y1 + (y2 - y1) * 0.08;
  put_line(p->out, x1, y1, x2, y2, "#333333", " stroke-width=\"1.5\"");
  snprintf(text, sizeof text, "read %.1f GB/s", r->read);
  snprintf(more, sizeof more, SMALL " transform=\"rotate(%.1f %.1f %.1f) translate(0 -5)\"", angle, x, y);
  put_label(p->out, x, y, "start", more, text);
}

/* The band first: everything else stands before it. */
static void put_roof_band(const plot *p, const lap_bench_sample *ceiling) {
  const lap_bench_sample *read = &ceiling[LAP_BENCH_CEILING_READ], *int16 = &ceiling[LAP_BENCH_CEILING_INT16];
  const roof low = {lap_bench_sample_min(read) * GIGA, lap_bench_sample_min(int16) * GIGA};
  const roof high = {lap_bench_sample_max(read) * GIGA, lap_bench_sample_max(int16) * GIGA};
  put_band(p, &low, &high);
}

static void put_roof(const plot *p, const lap_bench_sample *ceiling) {
  double read = lap_bench_sample_median(&ceiling[LAP_BENCH_CEILING_READ]) * GIGA;
  const roof int16 = {read, lap_bench_sample_median(&ceiling[LAP_BENCH_CEILING_INT16]) * GIGA};
  const roof f32 = {read, lap_bench_sample_median(&ceiling[LAP_BENCH_CEILING_F32]) * GIGA};
  const roof *higher = f32.level > int16.level ? &f32 : &int16;
  double from = higher->level / read;
  put_slope(p, higher);
  put_level(p, &int16, from, higher == &int16 ? 5 : -13, "int16", " stroke-width=\"1.5\"");
  put_level(p, &f32, from, higher == &f32 ? 5 : -13, "f32 FMA", " stroke-dasharray=\"6 4\"");
}

static void put_roofline_points(const plot *p, const lap_bench_results *results) {
  for (int i = 0; i < series_count(results->request); i++) {
    series s = series_at(results->request, i);
    for (int c = 0; c < results->cells; c++)
      for (int kind = 0; kind < LAP_BENCH_KINDS && belongs(&results->cell[c], &s); kind++) {
        const lap_bench_rate *rate = &results->cell[c].rate[s.side][kind];
        if (!rate->tokens) continue;
        lap_bench_sample y = giga_operations(rate);
        put_point(p, intensity_of(rate), &y, (lap_bench_kind)kind, colour_of(&s));
      }
  }
}

static void put_roofline(FILE *out, const lap_bench_results *results) {
  plot p = {.out = out, .top = FIRST_TOP, .logarithmic = true};
  /* One roof is readable, and that of the most threads is the one not to be above. */
  const lap_bench_list *threads = &results->request->threads;
  int most = (int)threads->item[threads->count - 1];
  const lap_bench_sample *ceiling = results->machine.ceiling[most - 1];
  char across[96];
  snprintf(across, sizeof across,
           "operations for each byte read (roof: %d thread%s, grey from smallest to largest)", most,
           most == 1 ? "" : "s");
  fit_roofline(&p, results, ceiling);
  put_roof_band(&p, ceiling);
  put_log_grid(&p);
  put_frame(&p, "Roofline: squares are prompts, circles decodes, one for each depth", across,
            "Gop/s (multiplications with their addition)");
  put_roof(&p, ceiling);
  put_roofline_points(&p, results);
  put_legend(&p, results->request);
}

/* ---- rate over depth ------------------------------------------------------------------------- */

static lap_bench_kind curve_kind(const lap_bench_request *request) {
  return request->decode ? LAP_BENCH_DECODE : LAP_BENCH_PROMPT;
}

static void fit_curve(plot *p, const lap_bench_results *results) {
  for (int i = 0; i < results->cells; i++)
    for (int side = 0; side < results->request->sides; side++) {
      const lap_bench_rate *rate = &results->cell[i].rate[side][curve_kind(results->request)];
      widen(&p->x_low, &p->x_high, (double)results->cell[i].depth);
      widen(&p->y_low, &p->y_high, lap_bench_sample_max(&rate->per_second));
    }
  p->x_high = p->x_high > 0 ? p->x_high * 1.04 : 1;
  p->y_high *= 1.08;
}

static void put_linear_grid(const plot *p) {
  double x_step = round_up(p->x_high / 9), y_step = round_up(p->y_high / 7);
  if (x_step < 1) x_step = 1;
  for (int i = 0; i * x_step <= p->x_high; i++) put_tick_x(p, i * x_step);
  for (int i = 0; i * y_step <= p->y_high; i++) put_tick_y(p, i * y_step);
}

static void put_curve_of(const plot *p, const lap_bench_results *results, const series *s) {
  lap_bench_kind kind = curve_kind(results->request);
  const char *separator = "";
  fprintf(p->out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"", colour_of(s));
  for (int c = 0; c < results->cells; c++) {
    const lap_bench_cell *cell = &results->cell[c];
    if (!belongs(cell, s)) continue;
    fprintf(p->out, "%s%.1f,%.1f", separator, x_of(p, (double)cell->depth),
            y_of(p, lap_bench_sample_median(&cell->rate[s->side][kind].per_second)));
    separator = " ";
  }
  fputs("\"/>\n", p->out);
  for (int c = 0; c < results->cells; c++)
    if (belongs(&results->cell[c], s))
      put_point(p, (double)results->cell[c].depth, &results->cell[c].rate[s->side][kind].per_second, kind,
                colour_of(s));
}

static void put_curves(FILE *out, const lap_bench_results *results) {
  plot p = {.out = out, .top = SECOND_TOP};
  fit_curve(&p, results);
  put_linear_grid(&p);
  put_frame(&p, results->request->decode ? "Decode rate over depth" : "Prompt rate over depth",
            "tokens that the session holds before", "tokens/s");
  for (int i = 0; i < series_count(results->request); i++) {
    series s = series_at(results->request, i);
    put_curve_of(&p, results, &s);
  }
  put_legend(&p, results->request);
}

void lap_bench_svg(FILE *out, const lap_bench_results *results) {
  char text[256];
  const char *directory = results->request->directory, *slash = strrchr(directory, '/');
  fprintf(out,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
          "font-family=\"sans-serif\" font-size=\"13\">\n<title>lapidary bench</title>\n"
          "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
          WIDTH, HEIGHT, WIDTH, HEIGHT);
  snprintf(text, sizeof text, "%s on %s", slash && slash[1] ? slash + 1 : directory,
           results->machine.processor);
  put_label(out, LEFT, 34, "start", " font-size=\"20\" font-weight=\"bold\"", text);
  snprintf(
      text, sizeof text,
      "Median of %d rounds, bars from the smallest to the largest; prompts of %lld tokens, decodes of %lld",
      results->request->rounds, (long long)results->request->prompt, (long long)results->request->decode);
  put_label(out, LEFT, 56, "start", " fill=\"#555555\"", text);
  put_roofline(out, results);
  put_curves(out, results);
  fputs("</svg>\n", out);
}
