/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator_metrics.h"

#include <stdlib.h>

#include "shoal/aggregator.h"

enum { JOBS_SHOWN = 256 };

static void totals(metrics_page *page, const shoal_aggregator_stats *s)
{
    const struct {
        metrics_family family;
        uint64_t number;
    } rows[] = {
        {{"jobs", "gauge", "", "Jobs that are being served."}, s->jobs_open},
        {{"jobs_ended", "counter", "", "Jobs that are over."}, s->jobs_ended},
        {{"callers_refused", "counter", "", "Strangers, and jobs beyond the limit."},
         s->jobs_refused},
        {{"operations", "counter", "", "Operations that ended well."}, s->operations},
        {{"operations_failed", "counter", "", "Operations that failed."}, s->failures},
        {{"in_kernel", "gauge", "", "1: the kernel sums what it can."}, s->in_kernel},
        {{"kernel_operations", "counter", "", "Operations given to the kernel."},
         s->kernel_operations},
        {{"received_bytes", "counter", "bytes", "Payload received in operations that ended."},
         s->received_bytes},
        {{"sent_bytes", "counter", "bytes", "Payload sent in operations that ended."},
         s->sent_bytes},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        metrics_one(page, &rows[i].family, (double)rows[i].number);
}

static uint64_t job_number(const shoal_aggregator_job *job, size_t row)
{
    const uint64_t numbers[] = {
        job->ranks - job->ranks_gone, job->open_operations,   job->operations, job->memory_bytes,
        job->memory_peak_bytes,       job->memory_limit_bytes};
    return numbers[row];
}

static void by_job(metrics_page *page, const shoal_aggregator_job *jobs, uint32_t count)
{
    static const metrics_family rows[] = {
        {"job_ranks", "gauge", "", "Ranks of a job that are there."},
        {"job_operations_open", "gauge", "", "Operations of a job under way."},
        {"job_operations", "counter", "", "Operations of a job that ended well."},
        {"job_memory_bytes", "gauge", "bytes", "What the open operations of a job may hold."},
        {"job_memory_peak_bytes", "gauge", "bytes", "The most of it so far."},
        {"job_memory_limit_bytes", "gauge", "bytes", "What they may hold at most."},
    };
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        metrics_begin(page, &rows[row]);
        for (uint32_t i = 0; i < count; i++) {
            char epoch[24];
            snprintf(epoch, sizeof epoch, "%llu", (unsigned long long)jobs[i].epoch);
            const metrics_label labels[] = {{"job", jobs[i].name}, {"epoch", epoch}};
            metrics_sample(page, labels, 2, (double)job_number(&jobs[i], row));
        }
    }
}

void aggregator_metrics_fill(void *aggregator, metrics_page *page)
{
    shoal_aggregator_stats stats;
    shoal_aggregator_job *jobs = calloc(JOBS_SHOWN, sizeof *jobs);
    page->prefix = "shoal_aggregator_";
    const uint32_t count = shoal_aggregator_report(aggregator, &stats, jobs,
                                                   jobs != NULL ? JOBS_SHOWN : 0);
    totals(page, &stats);
    by_job(page, jobs, jobs == NULL ? 0 : count < JOBS_SHOWN ? count : JOBS_SHOWN);
    free(jobs);
}
