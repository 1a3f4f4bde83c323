/* SPDX-License-Identifier: MIT
 *
 * Rows made from samples, printed as JSON and as a table.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "../common/json.h"
#include "../common/term.h"
#include "bench.h"

struct bench_row *bench_row(struct bench *bench, const char *name, struct samples *samples, struct samples *limit)
{
    if (samples->count == 0) {
        say_error("bench", "%s: no samples in the available time.", name);
        return NULL;
    }
    struct bench_row *rows = realloc(bench->rows, (bench->row_count + 1) * sizeof *rows);
    if (!rows) {
        say_error("bench", "out of memory for a row.");
        return NULL;
    }
    bench->rows = rows;
    struct bench_row *row = &rows[bench->row_count++];
    *row = (struct bench_row){
        .bench = name,
        .times = samples_percentiles(samples),
        .count = samples->count,
    };
    if (bench->device)
        row_text(row, "device", bench->device);
    if (limit && limit->count > 0) {
        row->has_limit = true;
        row->limit_p50 = samples_percentiles(limit).p50;
    }
    return row;
}

static void add_param(struct bench_row *row, struct bench_param param)
{
    if (row && row->param_count < BENCH_PARAMS)
        row->params[row->param_count++] = param;
}

void row_int(struct bench_row *row, const char *name, int64_t value)
{
    add_param(row, (struct bench_param){ .name = name, .number = value });
}

void row_text(struct bench_row *row, const char *name, const char *value)
{
    add_param(row, (struct bench_param){ .name = name, .text = value });
}

void row_bool(struct bench_row *row, const char *name, bool value)
{
    add_param(row, (struct bench_param){ .name = name, .number = value, .is_bool = true });
}

void row_cpus(struct bench_row *row, const struct bench *bench, const char *first, const char *second)
{
    row_bool(row, "pinned", bench->cpu_count > 1);
    if (bench->cpu_count > 1 && first)
        row_int(row, first, bench_cpu(bench, 0));
    if (bench->cpu_count > 1 && second)
        row_int(row, second, bench_cpu(bench, 1));
}

/* ---- the machine ---- */

/* The first line of a file that begins with `key`, from behind its colon; "" if there is none. */
static char *line_of(const char *path, const char *key, char *text, size_t size)
{
    char line[512];
    FILE *file = fopen(path, "r");
    text[0] = 0;
    while (file && !text[0] && fgets(line, sizeof line, file)) {
        if (strncmp(line, key, strlen(key)) != 0)
            continue;
        const char *value = key[0] ? strchr(line, ':') : line;
        value = value && key[0] ? value + 1 + strspn(value + 1, " \t") : value;
        snprintf(text, size, "%.*s", (int)strcspn(value ? value : "", "\n"), value ? value : "");
    }
    if (file)
        fclose(file);
    return text;
}

static void print_machine(struct json *json, const struct bench *bench)
{
    struct utsname name = { .release = "" };
    char cpu[128], governor[64], path[96];
    uname(&name);
    if (!line_of("/proc/cpuinfo", "model name", cpu, sizeof cpu)[0])
        snprintf(cpu, sizeof cpu, "%s", name.machine);
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_governor", bench->cpus[0]);
    line_of(path, "", governor, sizeof governor);
    json_key(json, "machine");
    json_object(json);
    json_pair_string(json, "cpu", cpu);
    json_pair_int(json, "cores", bench->cpu_count);
    json_pair_string(json, "kernel", name.release);
    json_pair_string(json, "governor", governor[0] ? governor : NULL);
    json_pair_double(json, "load", bench->load);
    json_close(json);
}

/* ---- JSON ---- */

static void print_params(struct json *json, const struct bench_row *row)
{
    json_key(json, "params");
    json_object(json);
    for (size_t i = 0; i < row->param_count; i++) {
        const struct bench_param *param = &row->params[i];
        if (param->text)
            json_pair_string(json, param->name, param->text);
        else if (param->is_bool)
            json_pair_bool(json, param->name, param->number != 0);
        else
            json_pair_int(json, param->name, param->number);
    }
    json_close(json);
}

void bench_print_json(const struct bench *bench, FILE *out)
{
    struct json json;
    json_begin(&json, out, false);
    json_object(&json);
    print_machine(&json, bench);
    json_pair_string(&json, "commit", bench_commit);
    json_key(&json, "rows");
    json_array(&json);
    for (size_t i = 0; i < bench->row_count; i++) {
        const struct bench_row *row = &bench->rows[i];
        json_object(&json);
        json.compact = true; /* one row a line */
        json_pair_string(&json, "bench", row->bench);
        print_params(&json, row);
        json_pair_int(&json, "p50_ns", row->times.p50);
        json_pair_int(&json, "p95_ns", row->times.p95);
        json_pair_int(&json, "p99_ns", row->times.p99);
        json_pair_int(&json, "p999_ns", row->times.p999);
        json_pair_uint(&json, "n", row->count);
        if (row->has_limit)
            json_pair_int(&json, "limit_p50_ns", row->limit_p50);
        json_close(&json);
        json.compact = false;
    }
    json_close_array(&json);
    if (bench_timers_on())
        bench_timers_json(bench, &json);
    json_close(&json);
    json_end(&json);
}

/* ---- text ---- */

/* Whether it was pinned and where is for the JSON. */
static void print_params_text(struct table *table, const struct bench_row *row)
{
    char text[200] = "", bytes[TERM_TEXT];
    size_t used = 0;
    for (size_t i = 0; i < row->param_count && used < sizeof text; i++) {
        const struct bench_param *param = &row->params[i];
        int n = 0;
        if (param->is_bool || strstr(param->name, "_cpu"))
            continue;
        if (param->text)
            n = snprintf(text + used, sizeof text - used, "%s%s %s", used ? ", " : "", param->name, param->text);
        else if (strcmp(param->name, "bytes") == 0)
            n = snprintf(text + used, sizeof text - used, "%s%s", used ? ", " : "",
                         text_bytes(bytes, (uint64_t)param->number));
        else
            n = snprintf(text + used, sizeof text - used, "%s%s %lld", used ? ", " : "", param->name,
                         (long long)param->number);
        used += n > 0 ? (size_t)n : 0;
    }
    table_cell(table, COLOUR_DIM, "%s", text);
}

void bench_print_text(const struct bench *bench)
{
    static const char *const headers[] = { "bench",  "",   ">p50",       ">p95",     ">p99",
                                           ">p99.9", ">n", ">limit p50", ">above it" };
    struct table table;
    table_begin(&table, headers, sizeof headers / sizeof headers[0]);
    for (size_t i = 0; i < bench->row_count; i++) {
        const struct bench_row *row = &bench->rows[i];
        const int64_t values[] = { row->times.p50, row->times.p95, row->times.p99, row->times.p999 };
        char text[TERM_TEXT];
        table_cell(&table, COLOUR_PLAIN, "%s", row->bench);
        print_params_text(&table, row);
        for (size_t k = 0; k < 4; k++)
            table_cell(&table, k ? COLOUR_PLAIN : COLOUR_BOLD, "%s", text_duration(text, values[k]));
        table_cell(&table, COLOUR_DIM, "%zu", row->count);
        table_cell(&table, COLOUR_PLAIN, "%s", row->has_limit ? text_duration(text, row->limit_p50) : "");
        if (row->has_limit && row->times.p50 < row->limit_p50)
            table_cell(&table, COLOUR_PLAIN, "-%s", text_duration(text, row->limit_p50 - row->times.p50));
        else
            table_cell(&table, COLOUR_PLAIN, "%s",
                       row->has_limit ? text_duration(text, row->times.p50 - row->limit_p50) : "");
    }
    table_print(&table);
    bench_timers_text(bench);
}
