/* SPDX-License-Identifier: Apache-2.0 */
/* The same pods as an indexed Job of Kubernetes with its service, as a JobSet, which makes one
 * by itself, or as a TrainingRuntime and a TrainJob of Kubeflow, which make a JobSet. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "answer.h"
#include "cli.h"
#include "launch_print.h"

enum { PORT = 29401, USER = 65532, GRACE_S = 60 };

typedef struct page {
    const print_desc *desc;
    char name[24];
    char first[64]; /* rank 0's name within its service */
} page;

/* Lines, each behind so many spaces. */
static void put(int indent, const char *format, ...) SHOAL_PRINTF(2, 3);

static void put(int indent, const char *format, ...)
{
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (const char *line = text; *line != '\0';) {
        const int length = (int)strcspn(line, "\n");
        printf("%*s%.*s\n", indent, "", length, line);
        line += length + (line[length] == '\n');
    }
}

/* Two jobs of one user do not meet. */
static bool make_name(page *p)
{
    uint32_t number = 0;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
        return false;
    snprintf(p->name, sizeof p->name, "shoal-%08x", number);
    return true;
}

/* A spare is a pod behind the members'. */
static const char spare_script[] =
    "if [ \"$SHOAL_RANK\" -ge \"$SHOAL_WORLD_SIZE\" ]; then "
    "export SHOAL_SPARE=\"$SHOAL_RANK\" SHOAL_RANK=0; fi; exec \"$@\"";

/* YAML takes JSON's lists. */
static void put_command(int indent, const launch_desc *launch)
{
    json_t *words = json_array();
    if (launch->spares > 0) {
        json_array_append_new(words, answer_text("sh"));
        json_array_append_new(words, answer_text("-c"));
        json_array_append_new(words, answer_text(spare_script));
        json_array_append_new(words, answer_text("sh"));
    }
    for (char **argument = launch->argv; *argument != NULL; argument++)
        json_array_append_new(words, answer_text(*argument));
    printf("%*scommand: ", indent, "");
    (void)answer_write(stdout, words);
}

static uint16_t port_of(const launch_desc *launch)
{
    return launch->port != 0 ? (uint16_t)(launch->port + 1u) : (uint16_t)PORT;
}

static void put_variables(int indent, const page *p)
{
    const launch_desc *launch = p->desc->launch;
    put(indent,
        "env:\n"
        "  - name: SHOAL_RANK\n"
        "    valueFrom: {fieldRef: {fieldPath: "
        "\"metadata.annotations['batch.kubernetes.io/job-completion-index']\"}}\n"
        "  - {name: SHOAL_WORLD_SIZE, value: \"%u\"}\n"
        "  - {name: SHOAL_RENDEZVOUS, value: \"tcp://%s:%u\"}\n"
        "  - {name: SHOAL_TOKEN_FILE, value: /run/secrets/shoal/token}\n"
        "  - {name: SHOAL_JOB, value: \"%s\"}\n"
        "  - {name: HOME, value: /tmp}",
        launch->ranks - launch->spares, p->first, port_of(launch), p->name);
}

static void put_container(int indent, const page *p, const char *name)
{
    put(indent, "- name: %s\n  image: IMAGE", name);
    put_command(indent + 2, p->desc->launch);
    put_variables(indent + 2, p);
    put(indent + 2, "resources:\n"
                    "  requests: {cpu: \"1\", memory: 1Gi}\n"
                    "  limits: {memory: 1Gi}\n"
                    "securityContext:\n"
                    "  allowPrivilegeEscalation: false\n"
                    "  readOnlyRootFilesystem: true\n"
                    "  capabilities: {drop: [ALL]}\n"
                    "volumeMounts:\n"
                    "  - {name: token, mountPath: /run/secrets/shoal, readOnly: true}\n"
                    "  - {name: tmp, mountPath: /tmp}\n"
                    "  - {name: shm, mountPath: /dev/shm}\n"
                    "  # - {name: runs, mountPath: /runs}");
}

/* The token is root's and readable for the pod's group. */
static void put_pod(int indent, const page *p, const char *container)
{
    put(indent,
        "subdomain: %s\n"
        "restartPolicy: Never\n"
        "terminationGracePeriodSeconds: %d # a checkpoint has to be written by then\n"
        "automountServiceAccountToken: false\n"
        "securityContext:\n"
        "  runAsNonRoot: true\n"
        "  runAsUser: %d\n"
        "  runAsGroup: %d\n"
        "  fsGroup: %d\n"
        "  seccompProfile: {type: RuntimeDefault}\n"
        "containers:",
        p->name, GRACE_S, USER, USER, USER);
    put_container(indent + 2, p, container);
    put(indent, "volumes:\n"
                "  - {name: token, secret: {secretName: shoal-token, defaultMode: 288}}\n"
                "  - {name: tmp, emptyDir: {}}\n"
                "  - {name: shm, emptyDir: {medium: Memory, sizeLimit: 256Mi}}\n"
                "  # Data and --out: a volume that all pods may write to.\n"
                "  # - {name: runs, persistentVolumeClaim: {claimName: runs}}");
}

/* Pods that the cluster has taken away do not count as failures, nor those that want to be started
 * again; a command line that is wrong is wrong the next time, too. Whoever goes on without the lost
 * takes in a pod that was made anew. */
static void put_job_spec(int indent, const page *p, const char *container)
{
    const launch_desc *launch = p->desc->launch;
    const bool again = launch->survives || p->desc->requeue;
    put(indent,
        "completionMode: Indexed\n"
        "completions: %u\n"
        "parallelism: %u\n"
        "backoffLimit: %u\n"
        "podFailurePolicy:\n"
        "  rules:\n"
        "    - action: FailJob\n"
        "      onExitCodes: {containerName: %s, operator: In, values: [%d]}",
        launch->ranks, launch->ranks, launch->survives ? 4 * launch->ranks : 0, container,
        CLI_USAGE);
    if (p->desc->requeue)
        put(indent + 4,
            "- action: Ignore\n"
            "  onExitCodes: {containerName: %s, operator: In, values: [%d]}",
            container, LAUNCH_AGAIN);
    if (again)
        put(indent + 4, "- action: Ignore\n"
                        "  onPodConditions: [{type: DisruptionTarget, status: \"True\"}]");
    put(indent, "template:\n"
                "  spec:");
    put_pod(indent + 4, p, container);
}

static void put_job(const page *p)
{
    put(0,
        "apiVersion: v1\n"
        "kind: Service\n"
        "metadata: {name: %s}\n"
        "spec:\n"
        "  clusterIP: None\n"
        "  publishNotReadyAddresses: true\n"
        "  selector: {job-name: %s}\n"
        "---\n"
        "apiVersion: batch/v1\n"
        "kind: Job\n"
        "metadata: {name: %s}\n"
        "spec:",
        p->name, p->name, p->name);
    put_job_spec(2, p, "rank");
}

/* A JobSet begins anew as a whole when its Job has failed. */
static void put_set_spec(int indent, const page *p, const char *replicated)
{
    put(indent,
        "network: {enableDNSHostnames: true, subdomain: %s, publishNotReadyAddresses: true}",
        p->name);
    if (p->desc->requeue)
        put(indent, "failurePolicy: {maxRestarts: 3}");
    put(indent,
        "replicatedJobs:\n"
        "  - name: %s",
        replicated);
    if (strcmp(p->desc->kind, "trainjob") == 0)
        put(indent + 4, "template:\n"
                        "  metadata:\n"
                        "    labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}\n"
                        "  spec:");
    else
        put(indent + 4, "replicas: 1\n"
                        "template:\n"
                        "  spec:");
    put_job_spec(indent + 8, p, replicated);
}

static void put_jobset(const page *p)
{
    put(0,
        "apiVersion: jobset.x-k8s.io/v1alpha2\n"
        "kind: JobSet\n"
        "metadata: {name: %s}\n"
        "spec:",
        p->name);
    put_set_spec(2, p, "rank");
}

/* The trainer's container and step are called `node` by Kubeflow's own rule. */
static void put_trainjob(const page *p)
{
    put(0,
        "apiVersion: trainer.kubeflow.org/v1alpha1\n"
        "kind: TrainingRuntime\n"
        "metadata:\n"
        "  name: %s\n"
        "  labels: {trainer.kubeflow.org/framework: shoal}\n"
        "spec:\n"
        "  mlPolicy: {numNodes: %u}\n"
        "  template:\n"
        "    spec:",
        p->name, p->desc->launch->ranks);
    put_set_spec(6, p, "node");
    put(0,
        "---\n"
        "apiVersion: trainer.kubeflow.org/v1alpha1\n"
        "kind: TrainJob\n"
        "metadata: {name: %s}\n"
        "spec:\n"
        "  runtimeRef: {apiGroup: trainer.kubeflow.org, kind: TrainingRuntime, name: %s}\n"
        "  trainer: {numNodes: %u}",
        p->name, p->name, p->desc->launch->ranks);
}

int print_k8s(const print_desc *desc)
{
    page p = {.desc = desc};
    if (!make_name(&p))
        return cli_fail("run", "there are no random numbers for a name");
    put(0, "# First: kubectl create secret generic shoal-token "
           "--from-literal=token=$(openssl rand -hex 32)\n"
           "# Put your image, with Shoal and the data in it, for IMAGE; its user may be any.\n"
           "# No Kubernetes has run this: it was checked against published schemas.");
    if (strcmp(desc->kind, "job") == 0) {
        snprintf(p.first, sizeof p.first, "%s-0.%s", p.name, p.name);
        put_job(&p);
    } else if (strcmp(desc->kind, "jobset") == 0) {
        snprintf(p.first, sizeof p.first, "%s-rank-0-0.%s", p.name, p.name);
        put_jobset(&p);
    } else {
        snprintf(p.first, sizeof p.first, "%s-node-0-0.%s", p.name, p.name);
        put_trainjob(&p);
    }
    return CLI_OK;
}
