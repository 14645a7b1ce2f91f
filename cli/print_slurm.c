/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "launch_print.h"

/* One word for a shell: 'it'\''s'. */
static void print_word(const char *text)
{
    putchar('\'');
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*text);
    }
    putchar('\'');
}

static void print_head(const print_desc *desc)
{
    printf("#!/bin/bash\n"
           "#SBATCH --job-name=shoal\n"
           "#SBATCH --ntasks=%u\n"
           "#SBATCH --cpus-per-task=1\n",
           desc->launch->ranks);
    if (desc->launch->survives)
        puts("#SBATCH --no-kill");
    if (desc->requeue)
        puts("#SBATCH --requeue\n"
             "#SBATCH --open-mode=append\n"
             "# Two minutes before the time limit tasks are asked to end, as before a preemption.\n"
             "#SBATCH --signal=TERM@120");
    puts("# Rank, size and rank 0's host come from Slurm's own variables. The token stays in a\n"
         "# file that all nodes see and only you can read.\n"
         "export SHOAL_TOKEN_FILE=\"$HOME/.shoal-token-$SLURM_JOB_ID\"\n"
         "(umask 077; openssl rand -hex 32 >\"$SHOAL_TOKEN_FILE\")");
}

/* As the library does it by itself where nothing else is said. */
static void print_meeting(const launch_desc *launch)
{
    puts("first=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)");
    if (launch->port != 0)
        printf("export SHOAL_RENDEZVOUS=\"tcp://$first:%u\"\n", launch->port + 1u);
    else
        puts("export SHOAL_RENDEZVOUS=\"tcp://$first:$((20000 + SLURM_JOB_ID * 13 % 10000))\"");
}

/* What each task does around the command: it says who it is, and how the command ended. A torn line
 * of the ledger, where a file system does not append in one piece, is nobody's name. */
static void print_task(const print_desc *desc)
{
    const launch_desc *launch = desc->launch;
    printf("# Each task says how its command ended, in files that all nodes see.\n"
           "export SHOAL_KEPT=\"$HOME/.shoal-job-$SLURM_JOB_ID\"\n"
           "trap 'rm -f \"$SHOAL_TOKEN_FILE\" \"$SHOAL_KEPT\".*' EXIT\n"
           "rm -f \"$SHOAL_KEPT\".*\n"
           "task='trap : TERM\n"
           "export SHOAL_RANK=$SLURM_PROCID SHOAL_WORLD_SIZE=$((SLURM_NTASKS - %u))\n",
           launch->spares);
    if (launch->survives)
        printf("export SHOAL_LAUNCH_ID=$SLURM_JOB_ID.${SLURM_RESTART_COUNT:-0}.$SLURM_PROCID\n"
               "export SHOAL_LAUNCH_PROOF=\"$SHOAL_KEPT.ended\"\n");
    if (launch->spares > 0)
        printf("if [ \"$SHOAL_RANK\" -ge \"$SHOAL_WORLD_SIZE\" ]; then\n"
               "    export SHOAL_SPARE=$SLURM_PROCID SHOAL_RANK=0\n"
               "fi\n");
    printf("\"$@\"\n"
           "code=$?\n");
    if (launch->survives)
        printf("[ $code -ne 0 ] || [ -n \"$SHOAL_SPARE\" ] || : >\"$SHOAL_KEPT.done\"\n"
               "echo \"$SHOAL_LAUNCH_ID\" >>\"$SHOAL_LAUNCH_PROOF\"\n");
    if (desc->requeue)
        printf("[ $code -ne %d ] || { : >\"$SHOAL_KEPT.again\" && code=0; } # srun ends nobody\n",
               LAUNCH_AGAIN);
    puts("exit $code'");
}

void print_slurm(const print_desc *desc)
{
    const launch_desc *launch = desc->launch;
    const bool watched = launch->survives || desc->requeue;
    print_head(desc);
    if (watched || launch->port != 0)
        print_meeting(launch);
    if (watched)
        print_task(desc);
    else
        puts("trap 'rm -f \"$SHOAL_TOKEN_FILE\"' EXIT");
    printf("srun ${SLURM_HET_SIZE:+--het-group=0-$((SLURM_HET_SIZE - 1))} %s%s%s",
           launch->tag_output ? "--label " : "",
           launch->survives ? "--kill-on-bad-exit=0 --no-kill --wait=0" : "--kill-on-bad-exit=1",
           watched ? " bash -c \"$task\" task" : "");
    for (char **argument = launch->argv; *argument != NULL; argument++) {
        putchar(' ');
        print_word(*argument);
    }
    putchar('\n');
    if (watched)
        puts("code=$?");
    if (desc->requeue)
        printf("[ $code -ne 0 ] || [ ! -e \"$SHOAL_KEPT.again\" ] || code=%d\n", LAUNCH_AGAIN);
    if (launch->survives)
        puts(
            "[ ! -e \"$SHOAL_KEPT.done\" ] || code=0 # one that began with the job has its result");
    if (desc->requeue)
        puts("if [ $code -ne 0 ] && [ -e \"$SHOAL_KEPT.again\" ]; then\n"
             "    scontrol requeue \"${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_}"
             "${SLURM_ARRAY_TASK_ID:-$SLURM_JOB_ID}\" &&\n"
             "        sleep 60 # it ends this script\n"
             "elif [ \"${SLURM_RESTART_COUNT:-0}\" -gt 0 ]; then\n"
             "    # Before 26.05 Slurm starts what was preempted once more, though it has ended.\n"
             "    scontrol update jobid=\"$SLURM_JOB_ID\" requeue=0\n"
             "fi");
    if (watched)
        puts("exit $code");
}
