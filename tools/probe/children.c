/* tools/probe/children.c: runs processes side by side, reads what they answer and ends those that will not.
 * Called by gather.c. */
#include "probe/children.h"

#include "files/text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

enum { ANSWER_FD = 3, LONGEST_ANSWER = 1 << 22, LINE_BYTES = 160, PAUSE_MS = 20, LONGEST_TEXT = 255 };

/* What a child is beside what the caller sees of it. */
typedef struct process {
    pid_t pid;        /* 0: has ended */
    int answer, said; /* pipes; -1: closed */
    char *text;       /* the answer so far */
    size_t bytes;
    char line[LINE_BYTES]; /* the last that was not empty, and the one that is being read */
    char next[LINE_BYTES];
    size_t next_bytes;
    double begin;
    int status;
} process;

const char *child_end_name(child_end end)
{
    static const char *const names[] = { "answered", "crashed",       "timed out", "exited",
                                         "rubbish",  "out of memory", "not run" };
    return names[end];
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* ---- Signals: whoever ends this program ends the children too, and what it leaves is cleared away. ---- */

static volatile sig_atomic_t stopped;

static void stop(int number)
{
    stopped = number;
}

/* Takes the signals, and `kept` is what they did before; or puts that back. */
static void take_signals(bool take, struct sigaction kept[3])
{
    static const int numbers[3] = { SIGINT, SIGTERM, SIGHUP };
    const struct sigaction ours = { .sa_handler = stop };
    for (int index = 0; index < 3; index++) {
        if (take)
            sigaction(numbers[index], &ours, &kept[index]);
        else
            sigaction(numbers[index], &kept[index], NULL);
    }
}

/* ---- In the child -------------------------------------------------------------------------------------- */

static void become(const child *of, int answer, int said)
{
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    setpgid(0, 0);
    const int nothing = open("/dev/null", O_RDONLY);
    /* Out of the way of the numbers that they become. */
    const int high_answer = fcntl(answer, F_DUPFD, 10), high_said = fcntl(said, F_DUPFD, 10);
    if (nothing < 0 || high_answer < 0 || high_said < 0 || dup2(nothing, STDIN_FILENO) < 0 ||
        dup2(high_said, STDOUT_FILENO) < 0 || dup2(high_said, STDERR_FILENO) < 0 ||
        dup2(high_answer, ANSWER_FD) < 0)
        _exit(127);
    for (int fd = ANSWER_FD + 1; fd < 256; fd++)
        close(fd);
    for (const char *const *pair = of->environment; *pair; pair += 2) {
        if (pair[1])
            setenv(pair[0], pair[1], 1);
        else
            unsetenv(pair[0]);
    }
    execv(of->arguments[0], (char *const *)of->arguments);
    fprintf(stderr, "%s: %s\n", of->arguments[0], strerror(errno));
    _exit(127);
}

static bool start(const child *of, process *made, tool_error *error)
{
    int answer[2], said[2];
    if (pipe(answer) != 0)
        return tool_fail(error, "pipe: %s", strerror(errno));
    if (pipe(said) != 0) {
        close(answer[0]);
        close(answer[1]);
        return tool_fail(error, "pipe: %s", strerror(errno));
    }
    made->begin = now();
    made->pid = fork();
    if (made->pid == 0)
        become(of, answer[1], said[1]);
    close(answer[1]);
    close(said[1]);
    made->answer = answer[0];
    made->said = said[0];
    if (made->pid > 0)
        return true;
    made->pid = 0;
    return tool_fail(error, "fork: %s", strerror(errno));
}

/* ---- What it writes ------------------------------------------------------------------------------------ */

static void keep_line(process *of, const char *text, size_t bytes)
{
    for (size_t index = 0; index < bytes; index++) {
        if (text[index] == '\n' || text[index] == '\r') {
            if (of->next_bytes)
                memcpy(of->line, of->next, sizeof of->line);
            of->next_bytes = 0;
        } else if (of->next_bytes + 1 < LINE_BYTES) {
            of->next[of->next_bytes++] = text[index];
            of->next[of->next_bytes] = '\0';
        }
    }
}

static void end_group(const process *of)
{
    kill(-of->pid, SIGKILL);
    kill(of->pid, SIGKILL);
}

/* Reads what there is; closes a pipe at its end, or when an answer does not end. */
static void read_some(process *of, int *fd)
{
    char text[16384];
    ssize_t got = read(*fd, text, sizeof text);
    bool is_answer = fd == &of->answer;
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    char *grown = NULL;
    if (got > 0 && is_answer && of->bytes + (size_t)got <= LONGEST_ANSWER)
        grown = realloc(of->text, of->bytes + (size_t)got + 1);
    if (grown) {
        of->text = grown;
        memcpy(grown + of->bytes, text, (size_t)got);
        of->bytes += (size_t)got;
        grown[of->bytes] = '\0';
    } else if (got > 0 && !is_answer) {
        keep_line(of, text, (size_t)got);
    } else {
        close(*fd);
        *fd = -1;
    }
}

/* Resident bytes of a process, 0 where the system does not tell. */
static double resident_bytes(pid_t pid)
{
    char path[64];
    unsigned long long pages = 0;
    snprintf(path, sizeof path, "/proc/%ld/statm", (long)pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    if (fscanf(file, "%*u %llu", &pages) != 1)
        pages = 0;
    fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

/* ---- Answers ------------------------------------------------------------------------------------------- */

/* Texts of a driver: short, valid, without control characters. */
static void clean(cJSON *item)
{
    for (; item; item = item->next) {
        if (cJSON_IsString(item))
            tool_text_clean(item->valuestring, LONGEST_TEXT);
        clean(item->child);
    }
}

static void say(child *of, const process *was, const char *what)
{
    char line[LINE_BYTES];
    snprintf(line, sizeof line, "%s", was->next_bytes ? was->next : was->line);
    tool_text_clean(line, sizeof line);
    snprintf(of->words, sizeof of->words, "%s%s%s", what, line[0] ? "; its last words: " : "", line);
}

/* The last whole line of what it answered. */
static cJSON *last_answer(process *was)
{
    char *end = was->bytes ? strrchr(was->text, '\n') : NULL;
    if (!end)
        return NULL;
    *end = '\0';
    const char *before = strrchr(was->text, '\n'), *stop = NULL;
    cJSON *answer = cJSON_ParseWithOpts(before ? before + 1 : was->text, &stop, true);
    if (cJSON_IsObject(answer)) {
        clean(answer);
        return answer;
    }
    cJSON_Delete(answer);
    return NULL;
}

static void judge(child *of, process *was)
{
    char what[64] = "";
    of->answer = last_answer(was);
    if (of->end != CHILD_ANSWERED)
        return;
    if (WIFSIGNALED(was->status)) {
        of->end = CHILD_CRASHED;
        snprintf(what, sizeof what, "%s", strsignal(WTERMSIG(was->status)));
    } else if (was->bytes && !of->answer) {
        of->end = CHILD_RUBBISH;
        snprintf(what, sizeof what, "%zu bytes that are no answer", was->bytes);
    } else if (!of->answer || WEXITSTATUS(was->status) != 0) {
        of->end = CHILD_EXITED;
        snprintf(what, sizeof what, "exit code %d", WEXITSTATUS(was->status));
    }
    if (what[0])
        say(of, was, what);
}

static void limit(child *of, process *now_is, const child_limits *limits)
{
    char what[96];
    if (now() - now_is->begin > limits->seconds) {
        of->end = CHILD_TIMED_OUT;
        snprintf(what, sizeof what, "no answer within %g s", limits->seconds);
    } else if (resident_bytes(now_is->pid) > limits->memory_bytes) {
        of->end = CHILD_MEMORY;
        snprintf(what, sizeof what, "more than %.1f GiB of memory", limits->memory_bytes / 0x1p30);
    } else {
        return;
    }
    say(of, now_is, what);
    end_group(now_is);
}

/* Waits until something can be read or a moment has passed, and reads it. */
static void read_all(process *all, size_t count, struct pollfd *polled)
{
    for (size_t index = 0; index < count; index++) {
        polled[2 * index] = (struct pollfd){ .fd = all[index].answer, .events = POLLIN };
        polled[2 * index + 1] = (struct pollfd){ .fd = all[index].said, .events = POLLIN };
    }
    if (poll(polled, (nfds_t)(2 * count), PAUSE_MS) <= 0)
        return;
    for (size_t index = 0; index < count; index++) {
        if (polled[2 * index].revents)
            read_some(&all[index], &all[index].answer);
        if (polled[2 * index + 1].revents)
            read_some(&all[index], &all[index].said);
    }
}

/* Reads what is left in a pipe and closes it. */
static void drain(process *is, int *fd)
{
    struct pollfd left = { .fd = *fd, .events = POLLIN };
    while (*fd >= 0 && poll(&left, 1, 0) > 0)
        read_some(is, fd);
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Whether it still runs; what it wrote before its end is read. */
static bool runs(child *of, process *is, const child_limits *limits)
{
    if (!is->pid)
        return false;
    if (waitpid(is->pid, &is->status, WNOHANG) == 0) {
        if (of->end == CHILD_ANSWERED)
            limit(of, is, limits);
        return true;
    }
    of->seconds = now() - is->begin;
    kill(-is->pid, SIGKILL); /* what it started and left behind */
    is->pid = 0;
    drain(is, &is->answer);
    drain(is, &is->said);
    judge(of, is);
    return false;
}

/* Says on a terminal for whom it waits, once that has taken a second, and wipes it when nobody runs any more.
 */
static void show(const child *all, const process *processes, size_t count)
{
    static double shown; /* when it was; 0: nothing is */
    size_t index = 0;
    if (!isatty(STDERR_FILENO))
        return;
    while (index < count && !processes[index].pid)
        index++;
    if (index == count && shown > 0) {
        fprintf(stderr, "\r\033[K");
        shown = 0;
    } else if (index < count && now() - processes[index].begin >= 1 && now() - shown >= 1) {
        shown = now();
        fprintf(stderr, "\r\033[Kasking %s, %.0f s", all[index].name, shown - processes[index].begin);
    }
}

static bool run_together(child *all, size_t count, const child_limits *limits, tool_error *error)
{
    process *processes = calloc(count + 1, sizeof *processes);
    struct pollfd *polled = calloc(2 * count + 1, sizeof *polled);
    bool ok = processes && polled;
    size_t started = 0;
    struct sigaction kept[3];
    if (!ok) {
        tool_fail(error, "no memory for %zu processes", count);
        goto done;
    }
    take_signals(true, kept);
    for (; ok && started < count; started++) {
        processes[started].answer = processes[started].said = -1;
        if (all[started].end != CHILD_NOT_RUN)
            ok = start(&all[started], &processes[started], error);
    }
    for (size_t index = 0; !ok && index < started; index++) {
        if (processes[index].pid)
            end_group(&processes[index]);
    }
    for (bool running = true; running;) {
        running = false;
        read_all(processes, started, polled);
        for (size_t index = 0; index < started; index++) {
            if (stopped && processes[index].pid)
                end_group(&processes[index]);
            running |= runs(&all[index], &processes[index], limits);
        }
        show(all, processes, started);
    }
    take_signals(false, kept);
    if (ok && stopped)
        ok = tool_fail(error, "stopped by a signal: %s", strsignal(stopped));
    for (size_t index = 0; index < started; index++)
        free(processes[index].text);
done:
    free(processes);
    free(polled);
    return ok;
}

bool children_run(child *all, size_t count, bool together, const child_limits *limits, tool_error *error)
{
    if (together)
        return run_together(all, count, limits, error);
    for (size_t index = 0; index < count; index++) {
        if (!run_together(&all[index], 1, limits, error))
            return false;
    }
    return true;
}
