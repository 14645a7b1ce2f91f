/* SPDX-License-Identifier: Apache-2.0 */
#include "interrupt.h"

#include <signal.h>
#include <stddef.h>

static const int numbers[] = {SIGINT, SIGTERM};
enum { NUMBERS = sizeof numbers / sizeof numbers[0] };

static struct {
    void (*stop)(void *of);
    void *of;
    struct sigaction before[NUMBERS];
    volatile sig_atomic_t came;
} asked;

static void on_signal(int number)
{
    asked.came = number;
    asked.stop(asked.of);
}

void interrupt_begin(void (*stop)(void *of), void *of)
{
    const struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    asked.stop = stop;
    asked.of = of;
    asked.came = 0;
    for (size_t i = 0; i < NUMBERS; i++) {
        (void)sigaction(numbers[i], NULL, &asked.before[i]);
        if (asked.before[i].sa_handler == SIG_DFL)
            (void)sigaction(numbers[i], &action, NULL);
    }
}

int interrupt_end(void)
{
    for (size_t i = 0; i < NUMBERS; i++)
        (void)sigaction(numbers[i], &asked.before[i], NULL);
    return asked.came;
}
