/* SPDX-License-Identifier: Apache-2.0 */
#include "data/speaker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"

extern char **environ;

enum { WAIT_MS = 60000 };

static shoal_status failed(const shoali_speaker *speaker, int code, const char *what)
{
    (void)shoali_fail_os(SHOAL_EIO, code, "%s: %s", speaker->program, what);
    shoali_error_advice("It needs Debian's packages libespeak-ng1 and espeak-ng-data.");
    return SHOAL_EIO;
}

shoal_status shoali_speaker_start(const char *program, shoali_speaker *speaker_out)
{
    int in[2], out[2];
    posix_spawn_file_actions_t actions;
    char *argv[2] = {(char *)(uintptr_t)program, NULL};
    shoali_speaker speaker = {.program = program, .pid = -1};
    if (pipe2(in, O_CLOEXEC) != 0)
        return failed(&speaker, errno, "cannot make a pipe");
    if (pipe2(out, O_CLOEXEC) != 0) {
        int code = errno;
        close(in[0]);
        close(in[1]);
        return failed(&speaker, code, "cannot make a pipe");
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    int code = posix_spawn(&speaker.pid, program, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    speaker.in = in[1];
    speaker.out = out[0];
    if (code != 0) {
        close(in[1]);
        close(out[0]);
        return failed(&speaker, code, "cannot be started");
    }
    *speaker_out = speaker;
    return SHOAL_OK;
}

void shoali_speaker_stop(shoali_speaker *speaker)
{
    if (speaker->pid <= 0)
        return;
    close(speaker->in);
    close(speaker->out);
    (void)kill(speaker->pid, SIGTERM);
    (void)waitpid(speaker->pid, NULL, 0);
    speaker->pid = -1;
}

/* A helper that died must not kill this process: SIGPIPE is held back around the write. */
static ssize_t write_quietly(int fd, const char *bytes, size_t count)
{
    sigset_t pipe_only, before, pending;
    const struct timespec now = {0, 0};
    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &pipe_only, &before);
    ssize_t wrote = write(fd, bytes, count);
    int code = errno;
    if (wrote < 0 && code == EPIPE && sigismember(&pending, SIGPIPE) == 0)
        (void)sigtimedwait(&pipe_only, NULL, &now);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = code;
    return wrote;
}

static shoal_status take(const shoali_speaker *speaker, void *bytes_out, size_t count)
{
    struct pollfd ready = {.fd = speaker->out, .events = POLLIN};
    for (size_t done = 0; done < count;) {
        int waited = poll(&ready, 1, WAIT_MS);
        if (waited < 0 && errno == EINTR)
            continue;
        if (waited <= 0)
            return failed(speaker, waited == 0 ? ETIMEDOUT : errno, "says nothing");
        ssize_t got = read(speaker->out, (char *)bytes_out + done, count - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return failed(speaker, got < 0 ? errno : EPIPE, "ended in the middle of its answer");
        done += (size_t)got;
    }
    return SHOAL_OK;
}

shoal_status shoali_speaker_say(shoali_speaker *speaker, const char *line, shoali_spoken *spoken)
{
    uint32_t head[3];
    size_t length = strlen(line);
    if (write_quietly(speaker->in, line, length) != (ssize_t)length ||
        write_quietly(speaker->in, "\n", 1) != 1)
        return failed(speaker, errno, "does not listen");
    SHOALI_TRY(take(speaker, head, sizeof head));
    if (head[0] < 8000 || head[0] > 96000 || head[1] > SHOALI_SPOKEN_SAMPLES_MAX ||
        head[2] > SHOALI_SPOKEN_PHONEMES_MAX)
        return shoali_fail(SHOAL_ECORRUPT, "%s: %u samples per second, %u samples, %u phonemes",
                           speaker->program, head[0], head[1], head[2]);
    spoken->rate = head[0];
    spoken->samples = head[1];
    spoken->phonemes = head[2];
    SHOALI_TRY(take(speaker, spoken->phoneme, head[2] * sizeof *spoken->phoneme));
    return take(speaker, spoken->sample, head[1] * sizeof *spoken->sample);
}
