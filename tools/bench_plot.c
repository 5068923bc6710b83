/* tools/bench_plot.c: the roofline of a run with its cases, as SVG.
 * Called by bench.c. */
#include "bench.h"

#include <cairo-svg.h>
#include <cairo.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Points. */
enum {
    WIDTH = 1040,
    HEIGHT = 720,
    LEFT = 88,
    RIGHT = 24,
    TOP = 96,
    BOTTOM = 72,
    TITLE_FONT = 22,
    FONT = 14,
    DOT = 5,
    TEXT = 128
};

typedef struct colour {
    double red, green, blue;
} colour;

static const colour ink = { 0.1, 0.1, 0.1 }, pale = { 0.88, 0.88, 0.88 }, roof = { 0.35, 0.35, 0.35 };
static const colour dot_of[] = { [CLATTN_F32] = { 0.10, 0.35, 0.70 },
                                 [CLATTN_F16] = { 0.80, 0.35, 0.05 },
                                 [CLATTN_BF16] = { 0.10, 0.50, 0.25 } };

/* Powers of ten at the edges: x flops a byte, y GFLOP/s. */
typedef struct frame {
    cairo_t *cairo;
    double x0, x1, y0, y1;
    double peak, band, cache; /* GFLOP/s, GB/s of memory, GB/s of the case with the fastest reads */
} frame;

typedef struct box {
    double left, top, right, bottom;
} box;

static double place_x(const frame *in, double flops_a_byte)
{
    return LEFT + (WIDTH - LEFT - RIGHT) * (log10(flops_a_byte) - in->x0) / (in->x1 - in->x0);
}

static double place_y(const frame *in, double gflops)
{
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (log10(gflops) - in->y0) / (in->y1 - in->y0);
}

static void paint(cairo_t *cairo, colour of)
{
    cairo_set_source_rgb(cairo, of.red, of.green, of.blue);
}

static void font(cairo_t *cairo, double size, bool bold)
{
    cairo_select_font_face(cairo, "sans", CAIRO_FONT_SLANT_NORMAL,
                           bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(cairo, size);
}

static double text_width(cairo_t *cairo, const char *text)
{
    cairo_text_extents_t extents;
    cairo_text_extents(cairo, text, &extents);
    return extents.x_advance;
}

/* `share` of the text lies left of x. */
static void put_text(cairo_t *cairo, double x, double y, double share, const char *text)
{
    cairo_move_to(cairo, x - share * text_width(cairo, text), y);
    cairo_show_text(cairo, text);
}

static void put_line(cairo_t *cairo, double x0, double y0, double x1, double y1)
{
    cairo_move_to(cairo, x0, y0);
    cairo_line_to(cairo, x1, y1);
    cairo_stroke(cairo);
}

static double flops_a_byte(const bench_result *result)
{
    return result->cost.flops / result->cost.bytes;
}

static bool is_drawn(const bench_result *result)
{
    return result->verdict == BENCH_TIMED && result->cost.flops > 0;
}

/* Room for all cases and for both parts of the roof. */
static frame make_frame(cairo_t *cairo, const bench_run *run)
{
    frame made = {
        .cairo = cairo, .peak = run->peak.median, .band = run->band.median, .cache = run->band.median
    };
    double left = made.peak / made.band / 24, right = made.peak / made.band * 4, low = made.peak / 10;
    for (size_t index = 0; index < run->count; index++) {
        const bench_result *result = &run->result[index];
        if (!is_drawn(result))
            continue;
        left = fmin(left, flops_a_byte(result) / 1.6);
        right = fmax(right, flops_a_byte(result) * 2.5);
        low = fmin(low, bench_gflops(result) / 1.6);
        made.cache = fmax(made.cache, result->band.median);
    }
    made.x0 = log10(left);
    made.x1 = log10(right);
    made.y0 = log10(low);
    made.y1 = log10(made.peak * 1.6);
    return made;
}

/* Lines and numbers at 1, 2 and 5 of each decade, or only at 1 where there are many decades. */
static void draw_ticks(const frame *in, bool upright)
{
    static const double steps[] = { 1, 2, 5 };
    double from = upright ? in->y0 : in->x0, to = upright ? in->y1 : in->x1;
    cairo_t *cairo = in->cairo;
    font(cairo, FONT, false);
    cairo_set_line_width(cairo, 1);
    for (int decade = (int)floor(from); decade <= (int)ceil(to); decade++) {
        for (int step = 0; step < (to - from > 4 ? 1 : 3); step++) {
            char text[TEXT];
            double value = steps[step] * pow(10, decade);
            if (log10(value) < from || log10(value) > to)
                continue;
            snprintf(text, sizeof text, "%g", value);
            double x = place_x(in, value), y = place_y(in, value);
            paint(cairo, pale);
            if (upright)
                put_line(cairo, LEFT, y, WIDTH - RIGHT, y);
            else
                put_line(cairo, x, TOP, x, HEIGHT - BOTTOM);
            paint(cairo, ink);
            put_text(cairo, upright ? LEFT - 8 : x, upright ? y + FONT * 0.35 : HEIGHT - BOTTOM + 20,
                     upright ? 1 : 0.5, text);
        }
    }
}

static void draw_axes(const frame *in)
{
    cairo_t *cairo = in->cairo;
    draw_ticks(in, false);
    draw_ticks(in, true);
    paint(cairo, ink);
    cairo_rectangle(cairo, LEFT, TOP, WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
    cairo_stroke(cairo);
    font(cairo, FONT + 1, true);
    put_text(cairo, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 22, 0.5,
             "flops for each byte of q, k, v and out (of a module: x, weights and out)");
    cairo_save(cairo);
    cairo_translate(cairo, 26, (TOP + HEIGHT - BOTTOM) / 2.0);
    cairo_rotate(cairo, -acos(-1) / 2);
    put_text(cairo, 0, 0, 0.5, "GFLOP/s, useful flops only");
    cairo_restore(cairo);
}

/* The slope of reads at `gbs` up to the peak, with its text along it. */
static void draw_slope(const frame *in, double gbs, bool dashed, const char *what)
{
    cairo_t *cairo = in->cairo;
    char text[TEXT];
    const double dashes[] = { 7, 5 };
    double x0 = fmax(pow(10, in->x0), pow(10, in->y0) / gbs), x1 = in->peak / gbs;
    double left = place_x(in, x0), low = place_y(in, x0 * gbs), right = place_x(in, x1),
           high = place_y(in, in->peak);
    cairo_set_dash(cairo, dashes, dashed ? 2 : 0, 0);
    put_line(cairo, left, low, right, high);
    cairo_set_dash(cairo, dashes, 0, 0);
    snprintf(text, sizeof text, "%.1f GB/s, %s", gbs, what);
    cairo_save(cairo);
    cairo_translate(cairo, right, high);
    cairo_rotate(cairo, -atan2(low - high, right - left));
    put_text(cairo, -24, dashed ? -7 : FONT + 5, 1, text);
    cairo_restore(cairo);
}

static void draw_roof(const frame *in, double bytes)
{
    cairo_t *cairo = in->cairo;
    char text[TEXT];
    paint(cairo, roof);
    font(cairo, FONT, false);
    cairo_set_line_width(cairo, 2);
    double y = place_y(in, in->peak);
    put_line(cairo, place_x(in, in->peak / in->cache), y, WIDTH - RIGHT, y);
    snprintf(text, sizeof text, "%.0f GFLOP/s, multiply-adds in registers, f32", in->peak);
    put_text(cairo, WIDTH - RIGHT - 8, y - 8, 1, text);
    snprintf(text, sizeof text, "reads of %.0f MiB", bytes / 1024 / 1024);
    draw_slope(in, in->band, false, text);
    if (in->cache > 1.15 * in->band)
        draw_slope(in, in->cache, true, "reads of a case's own bytes");
}

/* ---- Cases --------------------------------------------------------------------------------------------- */

static double overlap(const box *a, const box *b)
{
    double wide = fmin(a->right, b->right) - fmax(a->left, b->left);
    double high = fmin(a->bottom, b->bottom) - fmax(a->top, b->top);
    return wide > 0 && high > 0 ? wide * high : 0;
}

/* Where a case lies, and its stroke; one that is not drawn lies outside. */
typedef struct dot {
    double x, y, high, low;
} dot;

static dot place_dot(const frame *in, const bench_result *result)
{
    double giga_flops = result->cost.flops * 1e-9;
    if (!is_drawn(result))
        return (dot){ -WIDTH, -HEIGHT, -HEIGHT, -HEIGHT };
    return (dot){ place_x(in, flops_a_byte(result)), place_y(in, bench_gflops(result)),
                  fmax(place_y(in, giga_flops / result->time.p10), TOP),
                  fmin(place_y(in, giga_flops / result->time.p90), HEIGHT - BOTTOM) };
}

/* Where a text of this width disturbs least around a dot: near it, inside, on nothing else. */
static box choose_place(const frame *in, const dot *from, double wide, const box *taken, size_t count)
{
    static const double distances[] = { 10, 22, 36, 52, 70, 90 };
    box best = { 0 };
    double least = INFINITY;
    for (size_t ring = 0; ring < sizeof distances / sizeof distances[0]; ring++) {
        for (int turn = 0; turn < 16; turn++) {
            double angle = turn * acos(-1) / 8, far = distances[ring];
            double middle_x = from->x + cos(angle) * (far + wide / 2);
            double middle_y = from->y - sin(angle) * (far + FONT * 0.4);
            box at = { middle_x - wide / 2, middle_y - FONT * 0.5, middle_x + wide / 2,
                       middle_y + FONT * 0.5 };
            double cost = 3 * far;
            for (size_t index = 0; index < count; index++)
                cost += 20 * overlap(&at, &taken[index]);
            double roof_y = place_y(in, in->peak);
            if (at.left < LEFT + 2 || at.right > WIDTH - RIGHT - 2 || at.top < TOP + 2 ||
                at.bottom > HEIGHT - BOTTOM - 2 || (at.top < roof_y + 2 && at.bottom > roof_y - FONT - 10))
                cost += 1e4;
            if (cost < least) {
                least = cost;
                best = at;
            }
        }
    }
    return best;
}

static void label_of(const bench_run *run, const bench_result *result, char text[TEXT])
{
    char shape[BENCH_TEXT];
    bool others = false;
    for (size_t index = 0; index < run->count; index++)
        others = others ||
                 (strcmp(run->result[index].kernel, result->kernel) != 0 && is_drawn(&run->result[index]) &&
                  strcmp(run->result[index].of.name, result->of.name) == 0);
    bench_shape_text(&result->of, shape);
    snprintf(text, TEXT, "%s%s%s", strcmp(result->of.name, "shape") == 0 ? shape : result->of.name,
             others ? ", " : "", others ? result->kernel : "");
}

static void draw_label(const frame *in, const box *at, const dot *from, const char *text)
{
    cairo_t *cairo = in->cairo;
    double x = fmin(fmax(from->x, at->left), at->right), y = fmin(fmax(from->y, at->top), at->bottom);
    if (hypot(x - from->x, y - from->y) > 2.2 * DOT) {
        paint(cairo, roof);
        cairo_set_line_width(cairo, 0.7);
        put_line(cairo, from->x, from->y, x, y);
    }
    paint(cairo, ink);
    put_text(cairo, at->left, at->bottom - FONT * 0.15, 0, text);
}

static bool draw_cases(const frame *in, const bench_run *run)
{
    cairo_t *cairo = in->cairo;
    size_t count = 0;
    box *taken = calloc(3 * run->count + 1, sizeof *taken);
    if (!taken)
        return false;
    for (size_t index = 0; index < run->count; index++) {
        dot at = place_dot(in, &run->result[index]);
        taken[count++] = (box){ at.x - 2 * DOT, at.y - 2 * DOT, at.x + 2 * DOT, at.y + 2 * DOT };
        taken[count++] = (box){ at.x - DOT, at.high, at.x + DOT, at.low };
    }
    font(cairo, FONT, false);
    for (size_t index = 0; index < run->count; index++) {
        const bench_result *result = &run->result[index];
        char text[TEXT];
        if (!is_drawn(result))
            continue;
        dot at = place_dot(in, result);
        label_of(run, result, text);
        taken[count] = choose_place(in, &at, text_width(cairo, text), taken, count);
        draw_label(in, &taken[count++], &at, text);
        paint(cairo, dot_of[result->of.dtype]);
        cairo_set_line_width(cairo, 1.5);
        put_line(cairo, at.x, at.low, at.x, at.high);
        cairo_arc(cairo, at.x, at.y, DOT, 0, 2 * acos(-1));
        cairo_fill(cairo);
    }
    free(taken);
    return true;
}

static void draw_title(const frame *in, const bench_run *run)
{
    cairo_t *cairo = in->cairo;
    const clattn_device_info *device = clattn_context_device(run->context);
    char text[3 * CLATTN_TEXT_BYTES];
    double x = WIDTH - RIGHT;
    paint(cairo, ink);
    font(cairo, TITLE_FONT, true);
    put_text(cairo, LEFT, 36, 0, "Attention under the roofline");
    font(cairo, FONT, false);
    snprintf(text, sizeof text, "clattn %s on %s (%s)", clattn_version(), device->name, device->platform);
    put_text(cairo, LEFT, 60, 0, text);
    put_text(cairo, LEFT, 80, 0, "Dots are medians; strokes go from the 10th to the 90th percentile.");
    for (int dtype = CLATTN_BF16; dtype >= CLATTN_F32; dtype--) {
        bool used = false;
        for (size_t index = 0; index < run->count; index++)
            used = used || (is_drawn(&run->result[index]) && (int)run->result[index].of.dtype == dtype);
        if (!used)
            continue;
        paint(cairo, ink);
        put_text(cairo, x, 36, 1, bench_dtypes[dtype]);
        x -= text_width(cairo, bench_dtypes[dtype]) + 12;
        paint(cairo, dot_of[dtype]);
        cairo_arc(cairo, x, 36 - FONT * 0.35, DOT, 0, 2 * acos(-1));
        cairo_fill(cairo);
        x -= 24;
    }
}

static cairo_status_t write_bytes(void *file, const unsigned char *data, unsigned int length)
{
    return fwrite(data, 1, length, file) == length ? CAIRO_STATUS_SUCCESS : CAIRO_STATUS_WRITE_ERROR;
}

bool bench_plot_write(const bench_run *run, FILE *file, const char *path, tool_error *error)
{
    cairo_surface_t *surface = cairo_svg_surface_create_for_stream(write_bytes, file, WIDTH, HEIGHT);
    cairo_t *cairo = cairo_create(surface);
    frame in = make_frame(cairo, run);
    paint(cairo, (colour){ 1, 1, 1 });
    cairo_paint(cairo);
    draw_axes(&in);
    draw_roof(&in, run->read_bytes);
    bool ok = draw_cases(&in, run) || tool_fail(error, "%s: no memory for its labels", path);
    draw_title(&in, run);
    cairo_status_t status = cairo_status(cairo);
    cairo_destroy(cairo);
    cairo_surface_finish(surface);
    if (status == CAIRO_STATUS_SUCCESS)
        status = cairo_surface_status(surface);
    cairo_surface_destroy(surface);
    if (status == CAIRO_STATUS_SUCCESS)
        return ok;
    return tool_fail(error, "%s: cannot draw: %s", path, cairo_status_to_string(status));
}
