/* tools/plot.c: draws attention weights with cairo: panels in a grid, a colour bar on the right.
 * Called by mha.c. */
#include "plot.h"

#include <cairo.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Pixels, but for the last. */
enum {
    MARGIN = 28,
    TITLE_FONT = 26,
    NOTE_FONT = 16,
    HEAD_FONT = 18,
    LABEL_FONT = 15,
    LABEL_GAP = 5,
    LABEL_STEP = 16,  /* least distance of two labels */
    LABEL_ROOM = 130, /* longest label; the rest is cut */
    PANEL_GAP = 24,
    MAP_SIDE = 380, /* longer side of a map that has many cells */
    CELL_MOST = 34,
    CELL_LEAST = 16, /* so that each of some two dozen tokens keeps its label */
    CELLS_LABELLED = 26,
    BAR_WIDTH = 20,
    BAR_ROOM = 100,
    HEADS_MOST = 64
};

typedef struct colour {
    double red, green, blue;
} colour;

/* Light to dark, so that no weight looks like the paper. `share` is 0 to 1; its root is drawn, so that small
 * weights can be told apart. */
static colour shade(double share)
{
    static const colour ramp[] = { { 0.97, 0.97, 0.98 },
                                   { 0.70, 0.83, 0.90 },
                                   { 0.32, 0.60, 0.78 },
                                   { 0.14, 0.34, 0.62 },
                                   { 0.06, 0.10, 0.30 } };
    enum { STEPS = sizeof ramp / sizeof ramp[0] - 1 };
    double at = sqrt(fmin(fmax(share, 0), 1)) * STEPS;
    int low = at >= STEPS ? STEPS - 1 : (int)at;
    double part = at - low;
    const colour *a = &ramp[low], *b = &ramp[low + 1];
    return (colour){ a->red + part * (b->red - a->red), a->green + part * (b->green - a->green),
                     a->blue + part * (b->blue - a->blue) };
}

typedef struct layout {
    double cell, map_width, map_height;
    double row_room, column_room; /* of the labels */
    int64_t label_every;
    int across, down, heads;
    double panel_width, panel_height;
    double top; /* of the first panel */
    double greatest;
    int width, height;
} layout;

enum { LABEL_BYTES = 200 };

/* Cuts `text` to `length` bytes or a little less, so that no character is cut, and adds dots. */
static void shorten(char text[LABEL_BYTES], size_t length)
{
    while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80)
        length--;
    memcpy(text + length, "\xe2\x80\xa6", 4);
}

/* The label of row or column `index`, cut to the room there is; returns its width. */
static double label_text(cairo_t *cairo, char *const *labels, int64_t index, char text[LABEL_BYTES])
{
    cairo_text_extents_t extents;
    if (labels)
        snprintf(text, LABEL_BYTES, "%s", labels[index]);
    else
        snprintf(text, LABEL_BYTES, "%lld", (long long)index);
    size_t length = strlen(text);
    if (labels && strlen(labels[index]) >= LABEL_BYTES)
        shorten(text, length = LABEL_BYTES - 4);
    for (;;) {
        cairo_text_extents(cairo, text, &extents);
        if (extents.x_advance <= LABEL_ROOM || length == 0)
            return extents.x_advance;
        shorten(text, --length);
    }
}

static double label_room(cairo_t *cairo, char *const *labels, int64_t count, int64_t every)
{
    double longest = 0;
    for (int64_t index = 0; index < count; index += every) {
        char text[LABEL_BYTES];
        longest = fmax(longest, label_text(cairo, labels, index, text));
    }
    return longest + LABEL_GAP;
}

static void set_font(cairo_t *cairo, double size, bool bold)
{
    cairo_select_font_face(cairo, "sans", CAIRO_FONT_SLANT_NORMAL,
                           bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(cairo, size);
}

static double greatest_weight(const tool_plot *plot, int heads)
{
    double greatest = 0;
    for (int64_t head = 0; head < heads; head++) {
        for (int64_t row = 0; row < plot->rows; row++) {
            const float *weights = plot->weights + head * plot->head_stride + row * plot->row_stride;
            for (int64_t column = 0; column < plot->columns; column++) {
                if (isfinite(weights[column]))
                    greatest = fmax(greatest, weights[column]);
            }
        }
    }
    return greatest > 0 ? greatest : 1;
}

/* Panels across and down: near 4 to 3 in all, with few empty places. */
static void choose_grid(layout *made)
{
    double best = INFINITY;
    made->across = made->down = 1;
    for (int across = 1; across <= made->heads; across++) {
        int down = (made->heads + across - 1) / across;
        double ratio = across * made->panel_width / (down * made->panel_height);
        double cost = fabs(log(ratio * 3 / 4)) + 2.0 * (across * down - made->heads) / (across * down);
        if (cost < best) {
            best = cost;
            made->across = across;
            made->down = down;
        }
    }
}

static const char *note_text(const tool_plot *plot)
{
    if (plot->heads > HEADS_MOST)
        return "The first 64 heads. Rows are queries, columns are keys. Shades go with the square root of "
               "the weight.";
    return "Rows are queries, columns are keys; a row adds up to 1. Shades go with the square root of the "
           "weight.";
}

static double text_width(cairo_t *cairo, const char *text)
{
    cairo_text_extents_t extents;
    cairo_text_extents(cairo, text, &extents);
    return extents.x_advance;
}

/* Each how many cells a label stands: every one where they fit, else 2, 5, 10, 20, 50, ... */
static int64_t label_every(double cell)
{
    if (cell >= LABEL_STEP)
        return 1;
    for (int64_t decade = 1;; decade *= 10) {
        static const int64_t factor[] = { 2, 5, 10 };
        for (size_t index = 0; index < sizeof factor / sizeof factor[0]; index++) {
            if ((double)(decade * factor[index]) * cell >= 1.5 * LABEL_STEP)
                return decade * factor[index];
        }
    }
}

static layout lay_out(cairo_t *cairo, const tool_plot *plot)
{
    layout made = { .heads = plot->heads < HEADS_MOST ? (int)plot->heads : HEADS_MOST };
    double longer = fmax(1, (double)(plot->rows > plot->columns ? plot->rows : plot->columns));
    made.cell = fmin(CELL_MOST, MAP_SIDE / longer);
    if (longer <= CELLS_LABELLED)
        made.cell = fmax(floor(made.cell), CELL_LEAST);
    made.map_width = made.cell * (double)plot->columns;
    made.map_height = made.cell * (double)plot->rows;
    made.label_every = label_every(made.cell);
    set_font(cairo, LABEL_FONT, false);
    made.row_room = label_room(cairo, plot->row_labels, plot->rows, made.label_every);
    made.column_room = label_room(cairo, plot->column_labels, plot->columns, made.label_every);
    made.panel_width = made.row_room + made.map_width + PANEL_GAP;
    made.panel_height = HEAD_FONT + LABEL_GAP + made.map_height + made.column_room + PANEL_GAP;
    choose_grid(&made);
    made.top = MARGIN + TITLE_FONT + 2 * NOTE_FONT + LABEL_GAP;
    made.greatest = greatest_weight(plot, made.heads);
    double width = 2 * MARGIN + made.across * made.panel_width + BAR_ROOM;
    set_font(cairo, TITLE_FONT, true);
    width = fmax(width, 2 * MARGIN + text_width(cairo, plot->title));
    set_font(cairo, NOTE_FONT, false);
    made.width = (int)ceil(fmax(width, 2 * MARGIN + text_width(cairo, note_text(plot))));
    made.height = (int)ceil(made.top + made.down * made.panel_height + MARGIN - PANEL_GAP);
    return made;
}

static void text_at(cairo_t *cairo, double x, double y, const char *text)
{
    cairo_move_to(cairo, x, y);
    cairo_show_text(cairo, text);
}

/* A small image of the head's weights, a pixel a cell; where there are more cells than an image may have,
 * each pixel shows the greatest of its cells. */
static cairo_surface_t *map_image(const tool_plot *plot, int64_t head, double greatest)
{
    enum { SIDE = 1024 };
    int width = plot->columns < SIDE ? (int)plot->columns : SIDE;
    int height = plot->rows < SIDE ? (int)plot->rows : SIDE;
    cairo_surface_t *image = cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height);
    if (cairo_surface_status(image) != CAIRO_STATUS_SUCCESS)
        return image;
    unsigned char *pixels = cairo_image_surface_get_data(image);
    int stride = cairo_image_surface_get_stride(image);
    const float *weights = plot->weights + head * plot->head_stride;
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < width; x++) {
            double most = 0;
            bool wrong = false;
            for (int64_t row = y * plot->rows / height; row < (y + 1) * plot->rows / height; row++) {
                for (int64_t at = x * plot->columns / width; at < (x + 1) * plot->columns / width; at++) {
                    float weight = weights[row * plot->row_stride + at];
                    wrong = wrong || !isfinite(weight);
                    most = fmax(most, weight);
                }
            }
            colour paint = wrong ? (colour){ 0.85, 0.1, 0.1 } : shade(most / greatest);
            uint32_t pixel = (uint32_t)(paint.red * 255 + 0.5) << 16 |
                             (uint32_t)(paint.green * 255 + 0.5) << 8 | (uint32_t)(paint.blue * 255 + 0.5);
            memcpy(pixels + (size_t)y * (size_t)stride + (size_t)x * 4, &pixel, sizeof pixel);
        }
    }
    cairo_surface_mark_dirty(image);
    return image;
}

static void draw_labels(cairo_t *cairo, const tool_plot *plot, const layout *place, double left, double top)
{
    const double lower = LABEL_FONT * 0.35; /* from a line's middle to its base */
    set_font(cairo, LABEL_FONT, false);
    cairo_set_source_rgb(cairo, 0.1, 0.1, 0.1);
    for (int64_t row = 0; row < plot->rows; row += place->label_every) {
        char text[LABEL_BYTES];
        double wide = label_text(cairo, plot->row_labels, row, text);
        text_at(cairo, left - LABEL_GAP - wide, top + ((double)row + 0.5) * place->cell + lower, text);
    }
    for (int64_t column = 0; column < plot->columns; column += place->label_every) {
        char text[LABEL_BYTES];
        double wide = label_text(cairo, plot->column_labels, column, text);
        cairo_save(cairo);
        cairo_translate(cairo, left + ((double)column + 0.5) * place->cell + lower,
                        top + place->map_height + LABEL_GAP + wide);
        cairo_rotate(cairo, -acos(-1) / 2);
        text_at(cairo, 0, 0, text);
        cairo_restore(cairo);
    }
}

static void draw_panel(cairo_t *cairo, const tool_plot *plot, const layout *place, int head)
{
    char text[32];
    int row = head / place->across, column = head % place->across;
    double left = floor(MARGIN + column * place->panel_width + place->row_room);
    double top = floor(place->top + row * place->panel_height + HEAD_FONT + LABEL_GAP);
    set_font(cairo, HEAD_FONT, true);
    cairo_set_source_rgb(cairo, 0.1, 0.1, 0.1);
    snprintf(text, sizeof text, "head %d", head);
    text_at(cairo, left, top - LABEL_GAP, text);
    if (plot->rows > 0 && plot->columns > 0) {
        cairo_surface_t *image = map_image(plot, head, place->greatest);
        cairo_save(cairo);
        cairo_translate(cairo, left, top);
        cairo_scale(cairo, place->map_width / cairo_image_surface_get_width(image),
                    place->map_height / cairo_image_surface_get_height(image));
        cairo_set_source_surface(cairo, image, 0, 0);
        cairo_pattern_set_filter(cairo_get_source(cairo), CAIRO_FILTER_NEAREST);
        cairo_paint(cairo);
        cairo_restore(cairo);
        cairo_surface_destroy(image);
    }
    cairo_set_source_rgb(cairo, 0.45, 0.45, 0.5);
    cairo_set_line_width(cairo, 1);
    cairo_rectangle(cairo, left - 0.5, top - 0.5, place->map_width + 1, place->map_height + 1);
    cairo_stroke(cairo);
    draw_labels(cairo, plot, place, left, top);
}

static void draw_bar(cairo_t *cairo, const layout *place)
{
    static const double ticks[] = { 0, 0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1 };
    double left = MARGIN + place->across * place->panel_width + PANEL_GAP;
    double top = place->top + HEAD_FONT + 3 * LABEL_GAP;
    int height = (int)fmax(120, fmin(place->map_height, 420));
    for (int y = 0; y < height; y++) {
        double share = 1 - (y + 0.5) / height;
        colour paint = shade(share * share);
        cairo_set_source_rgb(cairo, paint.red, paint.green, paint.blue);
        cairo_rectangle(cairo, left, top + y, BAR_WIDTH, 1);
        cairo_fill(cairo);
    }
    cairo_set_source_rgb(cairo, 0.1, 0.1, 0.1);
    cairo_set_line_width(cairo, 1);
    cairo_rectangle(cairo, left - 0.5, top - 0.5, BAR_WIDTH + 1, height + 1);
    cairo_stroke(cairo);
    set_font(cairo, HEAD_FONT, true);
    text_at(cairo, left, top - 3 * LABEL_GAP, "weight");
    set_font(cairo, LABEL_FONT, false);
    double last = INFINITY;
    for (size_t index = 0; index < sizeof ticks / sizeof ticks[0]; index++) {
        char text[32];
        double y = top + height * (1 - sqrt(ticks[index]));
        if (last - y < LABEL_STEP || (ticks[index] < 1 && y - top < LABEL_STEP))
            continue;
        last = y;
        snprintf(text, sizeof text, "%.2g", ticks[index] * place->greatest);
        cairo_move_to(cairo, left + BAR_WIDTH, floor(y) + 0.5);
        cairo_rel_line_to(cairo, 4, 0);
        cairo_stroke(cairo);
        text_at(cairo, left + BAR_WIDTH + 7, y + LABEL_FONT * 0.35, text);
    }
}

static void draw(cairo_t *cairo, const tool_plot *plot, const layout *place)
{
    cairo_set_source_rgb(cairo, 1, 1, 1);
    cairo_paint(cairo);
    cairo_set_source_rgb(cairo, 0.1, 0.1, 0.1);
    set_font(cairo, TITLE_FONT, true);
    text_at(cairo, MARGIN, MARGIN + TITLE_FONT * 0.8, plot->title);
    set_font(cairo, NOTE_FONT, false);
    text_at(cairo, MARGIN, MARGIN + TITLE_FONT + NOTE_FONT, note_text(plot));
    for (int head = 0; head < place->heads; head++)
        draw_panel(cairo, plot, place, head);
    draw_bar(cairo, place);
}

static cairo_status_t write_bytes(void *file, const unsigned char *data, unsigned int length)
{
    return fwrite(data, 1, length, file) == length ? CAIRO_STATUS_SUCCESS : CAIRO_STATUS_WRITE_ERROR;
}

bool tool_plot_png(const tool_plot *plot, FILE *file, const char *path, tool_error *error)
{
    cairo_surface_t *scratch = cairo_image_surface_create(CAIRO_FORMAT_RGB24, 1, 1);
    cairo_t *cairo = cairo_create(scratch);
    layout place = lay_out(cairo, plot);
    cairo_destroy(cairo);
    cairo_surface_destroy(scratch);

    cairo_surface_t *surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, place.width, place.height);
    cairo = cairo_create(surface);
    draw(cairo, plot, &place);
    cairo_status_t status = cairo_status(cairo);
    errno = 0;
    if (status == CAIRO_STATUS_SUCCESS)
        status = cairo_surface_write_to_png_stream(surface, write_bytes, file);
    int reason = errno;
    cairo_destroy(cairo);
    cairo_surface_destroy(surface);
    if (status == CAIRO_STATUS_SUCCESS)
        return true;
    return tool_fail(error, "%s: cannot draw %d by %d pixels: %s", path, place.width, place.height,
                     status == CAIRO_STATUS_WRITE_ERROR && reason ? strerror(reason)
                                                                  : cairo_status_to_string(status));
}
