/* SPDX-License-Identifier: Apache-2.0 */
#include "launch_print.h"

#include <stdio.h>
#include <string.h>

#include "answer.h"
#include "cli.h"

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

void print_slurm(const launch_desc *desc)
{
    printf("#!/bin/bash\n"
           "#SBATCH --job-name=shoal\n"
           "#SBATCH --ntasks=%u\n"
           "#SBATCH --cpus-per-task=1\n"
           "# Rank, size and rank 0's host come from Slurm's own variables. The token stays in a\n"
           "# file that all nodes see and only you can read.\n"
           "export SHOAL_TOKEN_FILE=\"$HOME/.shoal-token-$SLURM_JOB_ID\"\n"
           "(umask 077; openssl rand -hex 32 >\"$SHOAL_TOKEN_FILE\")\n"
           "trap 'rm -f \"$SHOAL_TOKEN_FILE\"' EXIT\n"
           "srun --kill-on-bad-exit=1 --label",
           desc->ranks);
    for (char **argument = desc->argv; *argument != NULL; argument++) {
        putchar(' ');
        print_word(*argument);
    }
    putchar('\n');
}

/* YAML takes JSON's lists. */
static void print_command(const launch_desc *desc)
{
    json_t *words = json_array();
    for (char **argument = desc->argv; *argument != NULL; argument++)
        json_array_append_new(words, answer_text(*argument));
    printf("          command: ");
    (void)answer_write(stdout, words);
}

void print_k8s(const launch_desc *desc)
{
    uint16_t port = desc->port != 0 ? desc->port : 29400;
    printf("# First: kubectl create secret generic shoal-token "
           "--from-literal=token=$(openssl rand -hex 32)\n"
           "# Put your image, with Shoal and the data in it, for IMAGE.\n"
           "apiVersion: v1\n"
           "kind: Service\n"
           "metadata: {name: shoal}\n"
           "spec:\n"
           "  clusterIP: None\n"
           "  publishNotReadyAddresses: true\n"
           "  selector: {job-name: shoal}\n"
           "---\n"
           "apiVersion: batch/v1\n"
           "kind: Job\n"
           "metadata: {name: shoal}\n"
           "spec:\n"
           "  completionMode: Indexed\n"
           "  completions: %u\n"
           "  parallelism: %u\n"
           "  backoffLimit: 0\n"
           "  template:\n"
           "    spec:\n"
           "      subdomain: shoal\n"
           "      restartPolicy: Never\n"
           "      containers:\n"
           "        - name: rank\n"
           "          image: IMAGE\n",
           desc->ranks, desc->ranks);
    print_command(desc);
    printf("          env:\n"
           "            - name: SHOAL_RANK\n"
           "              valueFrom: {fieldRef: {fieldPath: "
           "\"metadata.annotations['batch.kubernetes.io/job-completion-index']\"}}\n"
           "            - {name: SHOAL_WORLD_SIZE, value: \"%u\"}\n"
           "            - {name: SHOAL_RENDEZVOUS, value: \"tcp://shoal-0.shoal:%u\"}\n"
           "            - {name: SHOAL_TOKEN_FILE, value: /run/secrets/shoal/token}\n"
           "          volumeMounts:\n"
           "            - {name: token, mountPath: /run/secrets/shoal, readOnly: true}\n"
           "      volumes:\n"
           "        - {name: token, secret: {secretName: shoal-token, defaultMode: 256}}\n",
           desc->ranks, port + 1u);
}
