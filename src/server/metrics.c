/* metrics.c: counters behind one lock, printed as Prometheus wants them.
 *
 * Requests are counted by endpoint and status in a small table that grows by what occurs: endpoints are the
 * server's own few, so it is bounded. */
#include "server/metrics.h"

#include <pthread.h>
#include <stdlib.h>

enum {
  MAX_COUNTS = 256,
  BUCKETS = 12
};

typedef struct count {
  const char *endpoint;
  int status;
  int64_t requests;
} count;

typedef struct histogram {
  const double *bounds; /* [BUCKETS], ascending */
  int64_t bucket[BUCKETS];
  int64_t observations;
  double sum;
} histogram;

static const double second_bounds[BUCKETS] = {0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120};
static const double rate_bounds[BUCKETS] = {1, 2, 4, 8, 12, 16, 24, 32, 64, 128, 256, 1024};

struct lap_metrics {
  pthread_mutex_t lock;
  count counts[MAX_COUNTS];
  int used;
  histogram first_token, decode_rate;
};

lap_status lap_metrics_create(lap_metrics **out, lap_error *error) {
  lap_metrics *metrics = calloc(1, sizeof *metrics);
  *out = metrics;
  if (!metrics) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for the server");
  metrics->first_token.bounds = second_bounds;
  metrics->decode_rate.bounds = rate_bounds;
  pthread_mutex_init(&metrics->lock, NULL);
  return LAP_OK;
}

void lap_metrics_destroy(lap_metrics *metrics) {
  if (!metrics) return;
  pthread_mutex_destroy(&metrics->lock);
  free(metrics);
}

void lap_metrics_request(lap_metrics *metrics, const char *endpoint, int status) {
  pthread_mutex_lock(&metrics->lock);
  int i = 0;
  while (i < metrics->used &&
         (metrics->counts[i].endpoint != endpoint || metrics->counts[i].status != status))
    i++;
  if (i == metrics->used && i < MAX_COUNTS)
    metrics->counts[metrics->used++] = (count){.endpoint = endpoint, .status = status};
  if (i < MAX_COUNTS) metrics->counts[i].requests++;
  pthread_mutex_unlock(&metrics->lock);
}

static void observe(lap_metrics *metrics, histogram *h, double value) {
  pthread_mutex_lock(&metrics->lock);
  for (int i = 0; i < BUCKETS; i++) h->bucket[i] += value <= h->bounds[i];
  h->observations++;
  h->sum += value;
  pthread_mutex_unlock(&metrics->lock);
}

void lap_metrics_first_token(lap_metrics *metrics, double seconds) {
  observe(metrics, &metrics->first_token, seconds);
}

void lap_metrics_decode_rate(lap_metrics *metrics, double tokens_per_second) {
  observe(metrics, &metrics->decode_rate, tokens_per_second);
}

/* ---- printing -------------------------------------------------------------------------------- */

static void head(lap_text *out, const char *name, const char *type, const char *help) {
  lap_text_add(out, "# HELP lapidary_%s %s\n# TYPE lapidary_%s %s\n", name, help, name, type);
}

static void print_value(lap_text *out, const char *name, const char *type, const char *help, double value) {
  head(out, name, type, help);
  lap_text_add(out, "lapidary_%s %.17g\n", name, value);
}

static void print_histogram(lap_text *out, const char *name, const char *help, const histogram *h) {
  head(out, name, "histogram", help);
  for (int i = 0; i < BUCKETS; i++)
    lap_text_add(out, "lapidary_%s_bucket{le=\"%g\"} %lld\n", name, h->bounds[i], (long long)h->bucket[i]);
  lap_text_add(out, "lapidary_%s_bucket{le=\"+Inf\"} %lld\n", name, (long long)h->observations);
  lap_text_add(out, "lapidary_%s_sum %.9g\nlapidary_%s_count %lld\n", name, h->sum, name,
               (long long)h->observations);
}

static void print_requests(const lap_metrics *metrics, lap_text *out) {
  head(out, "requests_total", "counter", "HTTP requests by endpoint and status.");
  for (int i = 0; i < metrics->used; i++)
    lap_text_add(out, "lapidary_requests_total{endpoint=\"%s\",status=\"%d\"} %lld\n",
                 metrics->counts[i].endpoint, metrics->counts[i].status,
                 (long long)metrics->counts[i].requests);
}

static void print_passes(const lap_batch_stats *engine, lap_text *out) {
  head(out, "forward_passes_total", "counter", "Forward passes by the code that ran them.");
  lap_text_add(out, "lapidary_forward_passes_total{path=\"monolith\"} %lld\n",
               (long long)engine->passes_monolith);
  lap_text_add(out, "lapidary_forward_passes_total{path=\"cut\"} %lld\n", (long long)engine->passes_cut);
}

void lap_metrics_print(lap_metrics *metrics, const lap_batch_stats *engine, int queued, lap_text *out) {
  const lap_prompt_cache_stats *cache = &engine->cache;
  pthread_mutex_lock(&metrics->lock);
  print_requests(metrics, out);
  print_histogram(out, "first_token_seconds", "From a request's arrival to its first token.",
                  &metrics->first_token);
  print_histogram(out, "decode_tokens_per_second", "Rate at which an answer came, after its first token.",
                  &metrics->decode_rate);
  pthread_mutex_unlock(&metrics->lock);
  print_value(out, "requests_running", "gauge", "Sequences that share forward passes.", engine->running);
  print_value(out, "requests_waiting", "gauge", "Sequences that wait for a place.", queued);
  print_value(out, "prompt_tokens_total", "counter", "Prompt tokens computed.",
              (double)engine->prompt_tokens);
  print_value(out, "generated_tokens_total", "counter", "Tokens generated.",
              (double)engine->generated_tokens);
  print_passes(engine, out);
  print_value(out, "kv_bytes", "gauge", "Memory of the KV caches in use.", (double)engine->kv_bytes);
  print_value(out, "kv_reserved_bytes", "gauge", "The most that running sequences can come to need.",
              (double)engine->kv_reserved);
  print_value(out, "scratch_bytes", "gauge", "Memory of activations and logits.",
              (double)engine->scratch_bytes);
  print_value(out, "prompt_cache_requests_total", "counter", "Prompts looked up in the prompt cache.",
              (double)cache->requests);
  print_value(out, "prompt_cache_hits_total", "counter", "Prompts whose beginning was found.",
              (double)cache->hits);
  print_value(out, "prompt_cache_hit_tokens_total", "counter", "Prompt tokens that were not computed for it.",
              (double)cache->hit_tokens);
  print_value(out, "prompt_cache_entries", "gauge", "Sequences kept.", (double)cache->entries);
  print_value(out, "prompt_cache_bytes", "gauge", "Memory of sequences kept.", (double)cache->bytes);
  print_value(out, "prompt_cache_evicted_total", "counter", "Sequences given up for want of room.",
              (double)cache->evicted);
  print_value(out, "prompt_cache_loaded_total", "counter", "Sequences read back from the cache directory.",
              (double)cache->loaded);
  print_value(out, "prompt_store_files", "gauge", "Files of the cache directory that can be used.",
              (double)cache->store.files);
  print_value(out, "prompt_store_bytes", "gauge", "Their size, and that of others like them.",
              (double)cache->store.bytes);
}
