/* tools/probe/views.c: lines for people. What a driver gave as text is clean already, and cut here.
 * Called by probe.c. */
#include "probe/views.h"

#include "probe/gather.h"

#include <math.h>
#include <string.h>

enum { COLUMNS = 100, INDENT = 4, MOST_TROUBLES = 4, TROUBLE = 9, LABEL = 26, CELL = 128 };

/* ---- Texts and columns --------------------------------------------------------------------------------- */

static bool begins_character(char byte)
{
    return ((unsigned char)byte & 0xc0) != 0x80;
}

static int width_of(const char *text)
{
    int width = 0;
    for (; *text; text++)
        width += begins_character(*text);
    return width;
}

/* At most `width` characters, the last a dot when something is left out, and spaces up to `width`. */
static void print_cell(FILE *to, const char *text, int width)
{
    int whole = width_of(text), taken = 0, most = whole > width ? width - 2 : width;
    for (; *text; text++) {
        taken += begins_character(*text);
        if (taken > most)
            break;
        fputc(*text, to);
    }
    fprintf(to, "%s%*s", whole > width ? ".." : "", whole > width ? 0 : width - whole, "");
}

void view_wrapped(FILE *to, int at, int indent, const char *text)
{
    const int begin = at;
    for (const char *word = text + strspn(text, " "); *word;) {
        const int length = (int)strcspn(word, " ");
        if (at > begin && at + 1 + length > COLUMNS) {
            fprintf(to, "\n%*s", indent, "");
            at = indent;
        } else if (at > begin) {
            at += fprintf(to, " ");
        }
        at += fprintf(to, "%.*s", length, word);
        word += length;
        word += strspn(word, " ");
    }
    fputc('\n', to);
}

/* Words after a label, on as many lines as they need. */
static void print_words(FILE *to, const char *label, const char *text)
{
    fprintf(to, "%*s%-*s", INDENT, "", LABEL, label);
    view_wrapped(to, INDENT + LABEL, INDENT + LABEL, text);
}

static const char *bytes_text(double bytes, char text[CELL])
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
    int unit = 0;
    if (bytes <= 0)
        return "unknown";
    while (bytes >= 1024 && unit < 4) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, CELL, unit && bytes < 100 ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return text;
}

/* With a prefix of SI: "104 GFLOP/s", "12.3 us". */
static const char *si_text(double value, const char *unit, char text[CELL])
{
    static const char *const prefixes[] = { "n", "u", "m", "", "k", "M", "G", "T", "P" };
    int prefix = 3;
    for (; value >= 1000 && prefix < 8; prefix++)
        value /= 1000;
    for (; value > 0 && value < 1 && prefix > 0; prefix--)
        value *= 1000;
    snprintf(text, CELL, "%.3g %s%s", value, prefixes[prefix], unit);
    return text;
}

static void print_coloured(const view *on, const char *text, bool good)
{
    if (on->colour)
        fprintf(on->to, "\033[%dm%s\033[0m", good ? 32 : 31, text);
    else
        fputs(text, on->to);
}

/* "0", or "-" where the driver cannot be used beside the others. */
static const char *number_text(const cJSON *device, char text[CELL])
{
    const cJSON *index = cJSON_GetObjectItemCaseSensitive(device, "index");
    snprintf(text, CELL, cJSON_IsNumber(index) ? "%.0f" : "-", json_number(device, "index"));
    return text;
}

/* The device, and its part of the document; NULL, said, where its driver did not get so far. */
static const cJSON *open_part(const view *on, const cJSON *document, const cJSON *device, const char *key)
{
    const cJSON *part = cJSON_GetObjectItemCaseSensitive(device, key);
    const cJSON *icds = cJSON_GetObjectItemCaseSensitive(document, "icds");
    const cJSON *icd = cJSON_GetArrayItem(icds, (int)json_number(device, "icd"));
    char number[CELL];
    fprintf(on->to, "\n%s  %s (%s)\n", number_text(device, number), json_text(device, "name"),
            json_text(device, "platform"));
    if (part && !cJSON_IsNull(part))
        return part;
    print_words(on->to, key, json_text(icd, "words"));
    return NULL;
}

/* ---- Devices ------------------------------------------------------------------------------------------- */

enum { NUMBER, NAME, PLATFORM, TYPE, UNITS, MEMORY, LARGEST, OPENCL, DRIVER, CELLS };
/* The texts of a line. */
typedef struct line {
    char cell[CELLS][CELL];
} line;

static void make_line(const cJSON *device, line *made)
{
    char number[CELL], bytes[CELL];
    int version = 0;
    snprintf(made->cell[NUMBER], CELL, "%s", number_text(device, number));
    snprintf(made->cell[NAME], CELL, "%s", json_text(device, "name"));
    snprintf(made->cell[PLATFORM], CELL, "%s", json_text(device, "platform"));
    snprintf(made->cell[TYPE], CELL, "%s", json_text(device, "type"));
    snprintf(made->cell[UNITS], CELL, "%.0f", json_number(device, "compute_units"));
    snprintf(made->cell[MEMORY], CELL, "%s", bytes_text(json_number(device, "memory_bytes"), bytes));
    snprintf(made->cell[LARGEST], CELL, "%s", bytes_text(json_number(device, "max_alloc_bytes"), bytes));
    const char *words = json_text(device, "version");
    if (strncmp(words, "OpenCL ", 7) == 0)
        version = (int)strcspn(words + 7, " ");
    snprintf(made->cell[OPENCL], CELL, "%.*s", version, words + (version ? 7 : 0));
    snprintf(made->cell[DRIVER], CELL, "%s", json_text(device, "driver"));
}

/* Widths of all columns, so that a line fits: name and platform give what is missing. */
static void fit(const cJSON *devices, const line *head, int width[CELLS])
{
    static const int most[CELLS] = { 4, 60, 18, 11, 5, 9, 9, 6, 12 };
    const cJSON *device;
    int sum = 2;
    for (int cell = 0; cell < CELLS; cell++)
        width[cell] = width_of(head->cell[cell]);
    cJSON_ArrayForEach(device, devices)
    {
        line cells;
        make_line(device, &cells);
        for (int cell = 0; cell < CELLS; cell++) {
            int wanted = width_of(cells.cell[cell]);
            if (wanted > most[cell])
                wanted = most[cell];
            if (wanted > width[cell])
                width[cell] = wanted;
        }
    }
    for (int cell = 0; cell < CELLS; cell++)
        sum += width[cell] + (cell ? 2 : 0);
    if (sum > COLUMNS)
        width[NAME] -= sum - COLUMNS;
}

static void print_line(const view *on, const line *cells, const int width[CELLS], bool picked)
{
    fputs(picked ? "* " : "  ", on->to);
    for (int cell = 0; cell < CELLS; cell++) {
        bool right = cell == UNITS || cell == MEMORY || cell == LARGEST || cell == NUMBER;
        fputs(cell ? "  " : "", on->to);
        if (right)
            fprintf(on->to, "%*s", width[cell], cells->cell[cell]);
        else
            print_cell(on->to, cells->cell[cell],
                       cell == DRIVER ? (int)fmin(width[cell], width_of(cells->cell[cell])) : width[cell]);
    }
    fputc('\n', on->to);
}

static void print_troubles(const view *on, const cJSON *document)
{
    const cJSON *troubles = cJSON_GetObjectItemCaseSensitive(document, "trouble"), *trouble;
    int count = 0;
    cJSON_ArrayForEach(trouble, troubles)
    {
        if (count++ < MOST_TROUBLES) {
            print_coloured(on, "trouble", false);
            fprintf(on->to, ": ");
            view_wrapped(on->to, TROUBLE, TROUBLE, json_text(trouble, "text"));
            fprintf(on->to, "%*s%s\n", TROUBLE, "", json_text(trouble, "command"));
        }
    }
    if (count > MOST_TROUBLES)
        fprintf(on->to, "and %d more: clattn probe --doctor\n", count - MOST_TROUBLES);
}

void view_devices(const view *on, const cJSON *document)
{
    static const line head = { { "no", "name", "platform", "type", "units", "memory", "largest", "OpenCL",
                                 "driver" } };
    const cJSON *devices = cJSON_GetObjectItemCaseSensitive(document, "devices"), *device;
    const cJSON *pick = cJSON_GetObjectItemCaseSensitive(document, "pick");
    int width[CELLS];
    if (cJSON_GetArraySize(devices) > 0) {
        fit(devices, &head, width);
        print_line(on, &head, width, false);
    } else {
        fprintf(on->to, "no OpenCL device\n");
    }
    cJSON_ArrayForEach(device, devices)
    {
        const cJSON *index = cJSON_GetObjectItemCaseSensitive(device, "index");
        line cells;
        make_line(device, &cells);
        print_line(on, &cells, width, cJSON_IsNumber(pick) && cJSON_Compare(index, pick, true));
    }
    int used = cJSON_IsNumber(pick) ? fprintf(on->to, "pick %.0f: ", pick->valuedouble)
                                    : fprintf(on->to, "no pick: ");
    view_wrapped(on->to, used, TROUBLE, json_text(document, "why"));
    print_troubles(on, document);
}

/* ---- Details ------------------------------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length > tail && strcmp(text + length - tail, end) == 0;
}

static void print_fact(const view *on, const cJSON *fact, const cJSON *unknown)
{
    char words[2 * CELL], bytes[CELL];
    double number = fact->valuedouble;
    if (cJSON_IsNumber(fact) && ends_with(fact->string, "_bytes"))
        snprintf(words, sizeof words, "%s", number > 0 ? bytes_text(number, bytes) : "none");
    else if (cJSON_IsNumber(fact) && ends_with(fact->string, "_hz"))
        si_text(number, "Hz", words);
    else if (cJSON_IsNumber(fact) && ends_with(fact->string, "_seconds"))
        si_text(number, "s", words);
    else if (cJSON_IsNumber(fact))
        snprintf(words, sizeof words, "%.0f", number);
    else if (cJSON_IsBool(fact))
        snprintf(words, sizeof words, "%s", cJSON_IsTrue(fact) ? "yes" : "no");
    else if (cJSON_IsString(fact))
        snprintf(words, sizeof words, "%s", fact->valuestring[0] ? fact->valuestring : "none");
    else
        snprintf(words, sizeof words, "unknown: %s", json_text(unknown, fact->string));
    print_words(on->to, fact->string, words);
}

static void print_feature(const view *on, const cJSON *feature)
{
    const char *proof = json_text(feature, "proof"), *detail = json_text(feature, "detail");
    bool quiet = strcmp(proof, "not claimed") == 0;
    char label[CELL];
    if (!detail[0]) {
        fprintf(on->to, "%*s%-*s", INDENT, "", LABEL, json_text(feature, "name"));
        if (quiet)
            fputs(proof, on->to);
        else
            print_coloured(on, proof, strcmp(proof, "ok") == 0);
        fprintf(on->to, "%*s%s\n", 16 - (int)strlen(proof), "", json_text(feature, "what"));
        return;
    }
    snprintf(label, sizeof label, "%s: %s", proof, detail);
    print_words(on->to, json_text(feature, "name"), label);
}

void view_details(const view *on, const cJSON *document)
{
    const cJSON *device, *item;
    cJSON_ArrayForEach(device, cJSON_GetObjectItemCaseSensitive(document, "devices"))
    {
        const cJSON *facts = cJSON_GetObjectItemCaseSensitive(device, "facts");
        const cJSON *rows = cJSON_GetObjectItemCaseSensitive(device, "rows");
        const cJSON *features = open_part(on, document, device, "features");
        fprintf(on->to, "  claimed\n");
        print_words(on->to, "version", json_text(device, "version"));
        print_words(on->to, "driver", json_text(device, "driver"));
        cJSON_ArrayForEach(item, facts)
            print_fact(on, item, cJSON_GetObjectItemCaseSensitive(device, "unknown"));
        if (features)
            fprintf(on->to, "  proved by running it\n");
        cJSON_ArrayForEach(item, features) print_feature(on, item);
        if (cJSON_IsArray(rows))
            fprintf(on->to, "  kernels\n");
        cJSON_ArrayForEach(item, rows)
        {
            const char *reason = json_text(item, "reason");
            print_words(on->to, json_text(item, "name"), json_true(item, "open") ? "open" : reason);
        }
    }
}

/* ---- Shapes -------------------------------------------------------------------------------------------- */

static void print_estimate(const view *on, const cJSON *shape)
{
    char words[3 * CELL], time[CELL], rate[CELL];
    bool by_fma = strcmp(json_text(shape, "bound_by"), "fma") == 0;
    const cJSON *estimate = cJSON_GetObjectItemCaseSensitive(shape, "estimate_seconds");
    if (!cJSON_IsNumber(estimate))
        return;
    snprintf(words, sizeof words, "no less than %s, an estimate from the %s just measured, %s",
             si_text(estimate->valuedouble, "s", time), by_fma ? "peak" : "bandwidth",
             si_text(json_number(shape, by_fma ? "fma_flops" : "read_bytes_per_second"),
                     by_fma ? "FLOP/s" : "B/s", rate));
    print_words(on->to, "time", words);
}

static void print_memory(const view *on, const cJSON *shape, const cJSON *device)
{
    char words[4 * CELL], one[CELL], other[CELL], most[CELL];
    const cJSON *tensor;
    cJSON_ArrayForEach(tensor, cJSON_GetObjectItemCaseSensitive(shape, "tensors"))
    {
        snprintf(words, sizeof words, "%s%s", bytes_text(json_number(tensor, "bytes"), one),
                 json_true(tensor, "fits") ? "" : ", more than the device's largest allocation");
        print_words(on->to, json_text(tensor, "name"), words);
    }
    if (cJSON_IsNumber(cJSON_GetObjectItemCaseSensitive(shape, "workspace_bytes")))
        print_words(on->to, "workspace",
                    json_number(shape, "workspace_bytes") > 0
                        ? bytes_text(json_number(shape, "workspace_bytes"), one)
                        : "none");
    snprintf(words, sizeof words, "%s of %s; each at most %s: %s",
             bytes_text(json_number(shape, "sum_bytes"), one),
             bytes_text(json_number(device, "memory_bytes"), other),
             bytes_text(json_number(device, "max_alloc_bytes"), most),
             json_true(shape, "fits") ? "fits" : "does not fit");
    print_words(on->to, "memory", words);
    if (json_text(shape, "advice")[0])
        print_words(on->to, "to make it fit", json_text(shape, "advice"));
}

void view_shapes(const view *on, const cJSON *document)
{
    const cJSON *device, *row;
    cJSON_ArrayForEach(device, cJSON_GetObjectItemCaseSensitive(document, "devices"))
    {
        char words[4 * CELL];
        const cJSON *shape = open_part(on, document, device, "shape");
        if (!shape)
            continue;
        print_words(on->to, "shape", json_text(shape, "text"));
        if (json_text(shape, "kernel")[0])
            snprintf(words, sizeof words, "%s: %s", json_text(shape, "kernel"), json_text(shape, "why"));
        else
            snprintf(words, sizeof words, "none: %s", json_text(shape, "why"));
        print_words(on->to, "kernel", words);
        cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(shape, "passed_over"))
        {
            snprintf(words, sizeof words, "not %s", json_text(row, "name"));
            print_words(on->to, words, json_text(row, "reason"));
        }
        print_memory(on, shape, device);
        print_estimate(on, shape);
    }
}

/* ---- Measures ------------------------------------------------------------------------------------------ */

void view_measures(const view *on, const cJSON *document)
{
    const cJSON *device, *one;
    cJSON_ArrayForEach(device, cJSON_GetObjectItemCaseSensitive(document, "devices"))
    {
        const cJSON *measures = open_part(on, document, device, "measure");
        cJSON_ArrayForEach(one, measures)
        {
            char words[4 * CELL], median[CELL], low[CELL], high[CELL];
            const char *unit = json_text(one, "unit");
            if (cJSON_IsNumber(cJSON_GetObjectItemCaseSensitive(one, "median")))
                snprintf(words, sizeof words, "%-14s  from %s to %s",
                         si_text(json_number(one, "median"), unit, median),
                         si_text(json_number(one, "p10"), unit, low),
                         si_text(json_number(one, "p90"), unit, high));
            else
                snprintf(words, sizeof words, "unknown: %s", json_text(one, "words"));
            fprintf(on->to, "%*s%-*s%s\n", INDENT, "", LABEL, json_text(one, "name"), words);
        }
    }
}
