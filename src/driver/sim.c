/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/sim_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/rng.h"
#include "driver/driver.h"
#include "driver/on_cluster.h"
#include "shoal/job.h"

enum { WORKERS_MAX = 4096, BUCKET_BYTES = 4 << 20, DEFAULT_COUNT = 1 << 20, CHUNK_ELEMS = 65536 };
#define STUCK_NS UINT64_C(3600000000000)

/* ---------------------------------------------------------------- create */

static shoal_status take_tensors(shoal_sim *sim, const shoal_sim_desc *desc,
                                 const shoal_model *model)
{
    const shoal_tensor one = {.key = 1, .count = DEFAULT_COUNT, .lr_scale = 1};
    const shoal_tensor *given = desc->tensor_count > 0 ? desc->tensors : NULL;
    sim->tensor_count = given != NULL ? desc->tensor_count : 1;
    if (model != NULL && given == NULL)
        given = shoal_model_tensors(model, &sim->tensor_count);
    if (sim->tensor_count == 0)
        return shoali_fail(SHOAL_EINVAL, "model %s has no tensors to train", desc->model);
    sim->tensors = shoali_alloc_array(sim->tensor_count, sizeof *sim->tensors);
    sim->room.tensors = shoali_alloc_array(sim->tensor_count, sizeof *sim->room.tensors);
    if (sim->tensors == NULL || sim->room.tensors == NULL)
        return SHOAL_ENOMEM;
    memcpy(sim->tensors, given != NULL ? given : &one, sim->tensor_count * sizeof *sim->tensors);
    return shoali_table_check(sim->tensors, sim->tensor_count, &sim->count);
}

static const char * or (const char *text, const char *fallback)
{
    return text != NULL && text[0] != '\0' ? text : fallback;
}

/* Whose members step apart need an optimiser that does, and stay the same. */
static shoal_status check_apart(shoal_sim *sim)
{
    const uint32_t traits = shoal_codec_traits(sim->codec);
    shoali_sync_coded_by(&sim->protocol, traits);
    if ((traits & SHOAL_CODEC_LOCAL) == 0)
        return SHOAL_OK;
    if (sim->asked.faults.reform)
        return shoali_fail(SHOAL_EINVAL, "faults=plan:reform does not go with codec %s",
                           shoal_codec_spec(sim->codec));
    if (sim->task.ctx != NULL)
        return SHOAL_OK;
    shoal_status status = shoali_fail(SHOAL_EINVAL,
                                      "codec %s: without gradients and an optimiser nobody knows "
                                      "what its steps are, nor which of them send",
                                      shoal_codec_spec(sim->codec));
    shoali_error_advice("Give --data, and --optimizer adam:freeze=W,local=H.");
    return status;
}

static shoal_status read_specs(shoal_sim *sim, const shoal_sim_desc *desc,
                               const shoali_sync_row *row)
{
    const char *sync = or (desc->sync, row != NULL ? row->name : "all_reduce");
    const char *codec = desc->codec;
    shoali_collective probe;
    SHOALI_TRY(shoali_sim_read_compute(desc->compute, &sim->asked.compute));
    SHOALI_TRY(shoali_sim_read_network(desc->network, &sim->asked.network));
    SHOALI_TRY(shoali_sim_read_faults(desc->faults, &sim->asked.faults));
    if (row == NULL && strncmp(sync, "auto:", 5) == 0)
        return shoali_fail(SHOAL_EINVAL, "--sync %s: auto has no keys, it chooses them, too", sync);
    if (row == NULL && strcmp(sync, "auto") == 0) {
        SHOALI_TRY(shoali_sim_choose(sim, desc));
        sync = sim->choice.sync;
        codec = sim->choice.codec != NULL ? sim->choice.codec : codec;
    }
    if (row != NULL)
        SHOALI_TRY(shoali_sync_open_row(row, sync, &sim->protocol));
    else
        SHOALI_TRY(shoali_sync_open(sync, &sim->protocol));
    SHOALI_TRY(shoal_codec_open(or (codec, "identity"), &sim->codec));
    SHOALI_TRY(shoal_codec_open("identity", &sim->identity));
    SHOALI_TRY(shoali_collective_open(or (desc->collective, "ring"), &probe));
    snprintf(sim->collective, sizeof sim->collective, "%s", probe.spec);
    shoali_collective_close(&probe);
    SHOALI_TRY(check_apart(sim));
    const uint32_t exact = SHOALI_SYNC_EXACT, not_this = SHOALI_SYNC_OWNER;
    if (sim->asked.faults.reform && (sim->protocol.traits & (exact | not_this)) != exact)
        return shoali_fail(SHOAL_EINVAL, "faults=plan:reform goes with all_reduce, not with %s",
                           sim->protocol.spec);
    sim->seed = desc->seed > 0 ? desc->seed : 1;
    sim->chunk_elems = desc->chunk_elems > 0 ? desc->chunk_elems : CHUNK_ELEMS;
    if (desc->cluster != NULL && !sim->asked.cluster_lent)
        SHOALI_TRY(shoali_cluster_load(desc->cluster, &sim->cluster));
    sim->workers = desc->workers > 0      ? desc->workers
                   : sim->cluster != NULL ? sim->cluster->workers
                                          : 4;
    if (sim->workers > WORKERS_MAX)
        return shoali_fail(SHOAL_EINVAL, "%u workers, at most %d", sim->workers, WORKERS_MAX);
    const shoal_job job = {.size = sizeof job,
                           .sync = sync,
                           .codec = codec,
                           .collective = desc->collective,
                           .workers = sim->workers};
    if (row == NULL)
        SHOALI_TRY(shoal_job_check(&job));
    sim->size = sim->workers + shoali_sync_servers(&sim->protocol);
    return SHOAL_OK;
}

/* Lies are about numbers, and about what is summed. */
static shoal_status check_lies(const shoal_sim *sim)
{
    const shoali_sim_list *lie = &sim->asked.faults.lie;
    for (uint32_t i = 0; i < lie->count; i++)
        if (lie->items[i].index >= sim->workers)
            return shoali_fail(SHOAL_EINVAL, "faults=plan:lie names worker %u of %u",
                               lie->items[i].index, sim->workers);
    if (lie->count > 0 && !sim->numbers)
        return shoali_fail(SHOAL_EINVAL, "faults=plan:lie needs real numbers: --data, or "
                                         "--problem quadratic");
    if (lie->count > 0 && (sim->protocol.traits & SHOALI_SYNC_MODELS) != 0)
        return shoali_fail(SHOAL_EINVAL,
                           "faults=plan:lie goes with protocols that sum gradients or updates "
                           "(all_reduce, param_server, local_sgd, diloco), not with %s",
                           sim->protocol.spec);
    return SHOAL_OK;
}

static void describe_world(shoal_sim *sim, const shoal_sim_desc *desc, uint32_t me)
{
    size_t bytes = desc->bucket_bytes > 0 ? desc->bucket_bytes : BUCKET_BYTES;
    sim->nodes[me].world = (shoali_world){
        .params = sim->protocol.params,
        .me = me,
        .role = me < sim->workers ? SHOALI_WORKER : SHOALI_SERVER,
        .workers = sim->workers,
        .servers = sim->size - sim->workers,
        .endpoints = sim->world.endpoint_ids,
        .hosts = sim->world.hosts,
        .tensors = sim->tensors,
        .tensor_count = sim->tensor_count,
        .count = sim->count,
        .bucket_elems = bytes >= sizeof(float) ? bytes / sizeof(float) : 1,
        .coding = shoali_coding_of(sim->codec),
        .nonfinite = desc->nonfinite,
        .seed = sim->seed};
}

static shoal_status make_nodes(shoal_sim *sim, const shoal_sim_desc *desc)
{
    const shoali_sync_row *row = sim->protocol.row;
    sim->nodes = shoali_alloc_array(sim->size, sizeof *sim->nodes);
    if (sim->nodes == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t i = 0; i < sim->size; i++) {
        shoali_sim_node *node = &sim->nodes[i];
        describe_world(sim, desc, i);
        node->state = shoali_alloc(row->state_size(&node->world));
        if (node->state == NULL)
            return SHOAL_ENOMEM;
        SHOALI_TRY(shoali_sim_numbers_open(sim, i));
    }
    if (sim->numbers && sim->codec->error_feedback) {
        size_t room = 0;
        if (__builtin_mul_overflow((size_t)sim->size, (size_t)sim->tensor_count, &room))
            return shoali_fail(SHOAL_ENOMEM, "too many tensors");
        sim->room.residual_of = shoali_alloc_array(room, sizeof *sim->room.residual_of);
        sim->room.residuals = shoali_alloc_array(sim->size, sizeof *sim->room.residuals);
        if (sim->room.residual_of == NULL || sim->room.residuals == NULL)
            return SHOAL_ENOMEM;
    }
    return SHOAL_OK;
}

static shoal_status build(shoal_sim *sim, const shoal_sim_desc *desc, const shoali_sync_row *row,
                          const shoal_model *model)
{
    SHOALI_TRY(take_tensors(sim, desc, model));
    SHOALI_TRY(read_specs(sim, desc, row));
    sim->world.endpoint_ids = shoali_alloc_array(sim->size, sizeof *sim->world.endpoint_ids);
    sim->world.hosts = shoali_alloc_array(sim->size, sizeof *sim->world.hosts);
    sim->kept.arena = shoali_arena_create(1 << 16);
    sim->kept.scratch = shoali_scratch_create();
    if (sim->world.endpoint_ids == NULL || sim->world.hosts == NULL || sim->kept.arena == NULL ||
        sim->kept.scratch == NULL)
        return SHOAL_ENOMEM;
    sim->report.inflate = desc->inflate > 0 ? desc->inflate : 1;
    if (!(desc->until_s >= 0 && desc->until_s < 1e9) || !(sim->report.inflate < 1e12))
        return shoali_fail(SHOAL_EINVAL, "until_s or inflate is out of range");
    SHOALI_TRY(shoali_sim_report_open(sim, desc));
    SHOALI_TRY(shoali_sim_world_links(sim));
    SHOALI_TRY(shoali_sim_wire_open(sim));
    uint64_t iterations = desc->iterations;
    if (sim->task.ctx != NULL)
        SHOALI_TRY(sim->task.open(sim->task.ctx, sim->workers, sim->size, &iterations));
    else
        SHOALI_TRY(shoali_problem_open(or (desc->problem, "cost"), sim->workers, sim->count,
                                       sim->seed, &sim->problem));
    sim->numbers = sim->task.ctx != NULL || sim->problem != NULL;
    SHOALI_TRY(check_lies(sim));
    sim->iterations = desc->until_s > 0 ? UINT64_MAX / 4 : iterations > 0 ? iterations : 10;
    sim->report.results.train_loss = sim->report.results.test_loss = (double)NAN;
    sim->report.results.test_accuracy = (double)NAN;
    sim->test.inject_at = UINT64_MAX;
    SHOALI_TRY(make_nodes(sim, desc));
    SHOALI_TRY(shoali_sim_world_pace(sim, model));
    return shoali_sim_report_files(sim, desc);
}

/* What is not in a descriptor; all of it may be absent. */
typedef struct given {
    const shoali_sync_row *row;
    const shoali_task *task;
    shoali_cluster *cluster;
    const double *pass_s;
} given;

static shoal_status create(const shoal_sim_desc *desc, const given *more, shoal_sim **sim_out)
{
    shoal_model *model = NULL;
    shoal_sim *sim = shoali_alloc(sizeof *sim);
    if (sim == NULL && more->task != NULL)
        more->task->close(more->task->ctx);
    if (sim == NULL)
        return SHOAL_ENOMEM;
    if (more->task != NULL)
        sim->task = *more->task;
    sim->cluster = more->cluster;
    sim->asked.cluster_lent = more->cluster != NULL;
    sim->asked.pass_s = more->pass_s;
    shoal_status status = desc->model != NULL ? shoal_model_open(desc->model, &model) : SHOAL_OK;
    if (status == SHOAL_OK)
        status = build(sim, desc, more->row, model);
    shoal_model_close(model);
    sim->asked.pass_s = NULL;
    if (status != SHOAL_OK) {
        shoal_sim_destroy(sim);
        return status;
    }
    *sim_out = sim;
    return SHOAL_OK;
}

shoal_status shoali_sim_create_row(const shoal_sim_desc *desc, const shoali_sync_row *row,
                                   shoal_sim **sim_out)
{
    return create(desc, &(given){.row = row}, sim_out);
}

shoal_status shoali_sim_create_task(const shoal_sim_desc *desc, const shoali_task *task,
                                    shoal_sim **sim_out)
{
    return create(desc, &(given){.task = task}, sim_out);
}

shoal_status shoali_sim_create_on(const shoal_sim_desc *desc, shoali_cluster *cluster,
                                  const double *pass_s, shoal_sim **sim_out)
{
    return create(desc, &(given){.cluster = cluster, .pass_s = pass_s}, sim_out);
}

shoal_status shoal_sim_create(const shoal_sim_desc *desc, shoal_sim **sim_out)
{
    if (desc == NULL || sim_out == NULL || desc->size != sizeof *desc)
        return shoali_fail(SHOAL_EINVAL, "shoal_sim_create: start from SHOAL_SIM_DESC_INIT");
    return create(desc, &(given){0}, sim_out);
}

static void free_node(shoali_sim_node *node)
{
    shoali_free(node->state);
    shoali_actions_fini(&node->actions);
    shoali_free(node->tensors.params);
    shoali_free(node->tensors.grads);
    shoali_tensors_fini(&node->tensors);
    shoali_free(node->velocity);
    shoali_free(node->residual);
    shoali_sim_transforms_fini(node);
    shoali_free(node->timers);
}

static void send_onlooker_away(shoal_sim *sim)
{
    if (sim->told.onlookers.ctx != NULL)
        sim->told.onlookers.close(sim->told.onlookers.ctx);
    sim->told.onlookers.ctx = NULL;
}

void shoal_sim_destroy(shoal_sim *sim)
{
    if (sim == NULL)
        return;
    send_onlooker_away(sim);
    for (uint32_t i = 0; sim->nodes != NULL && i < sim->size; i++)
        free_node(&sim->nodes[i]);
    if (sim->told.keeper.ctx != NULL)
        sim->told.keeper.close(sim->told.keeper.ctx);
    shoali_sim_report_fini(sim);
    shoali_sim_messages_fini(sim);
    shoali_sim_ops_fini(sim);
    shoali_sim_volumes_fini(sim);
    shoali_sim_queue_fini(&sim->queue);
    shoali_links_destroy(sim->net);
    if (!sim->asked.cluster_lent)
        shoali_cluster_close(sim->cluster);
    shoali_free(sim->pace.lines);
    shoali_free(sim->rate.lines);
    shoali_free(sim->rate.now);
    shoali_free(sim->wire.cuts);
    shoali_free(sim->wire.last_arrival);
    shoali_free(sim->wire.sent_messages);
    shoali_problem_close(sim->problem);
    if (sim->task.ctx != NULL)
        sim->task.close(sim->task.ctx);
    shoal_codec_close(sim->codec);
    shoal_codec_close(sim->identity);
    shoali_sync_close(&sim->protocol);
    shoali_scratch_destroy(sim->kept.scratch);
    shoali_arena_destroy(sim->kept.arena);
    shoali_free(sim->nodes);
    shoali_free(sim->tensors);
    shoali_free(sim->room.tensors);
    shoali_free(sim->room.residual_of);
    shoali_free((void *)sim->room.residuals);
    shoali_free(sim->world.endpoint_ids);
    shoali_free(sim->world.hosts);
    shoali_free(sim->world.link_place);
    shoali_free(sim->epoch.live_ids);
    shoali_free(sim->epoch.live_hosts);
    shoali_free(sim);
}

/* ---------------------------------------------------------------- run */

static const char *phase_name(shoali_sim_phase phase)
{
    static const char *const names[] = {"computes",
                                        "waits in before_update",
                                        "updates",
                                        "waits in after_update",
                                        "waits for the end of others",
                                        "waits to leave",
                                        "serves",
                                        "waits for the next epoch",
                                        "has ended"};
    return names[phase];
}

static shoal_status stuck(const shoal_sim *sim, const char *what)
{
    uint32_t i = 0;
    while (i + 1 < sim->size && sim->nodes[i].phase == SHOALI_SIM_ENDED)
        i++;
    return shoali_fail(SHOAL_ETIMEDOUT, "%s at %.6f s: endpoint %u %s, iteration %llu", what,
                       (double)sim->now_ns * 1e-9, i, phase_name(sim->nodes[i].phase),
                       (unsigned long long)sim->nodes[i].iteration);
}

/* Handle what comes next; false: nothing is left, or it broke. At one moment links go last. */
static bool step(shoal_sim *sim)
{
    const shoali_sim_event *next = shoali_sim_peek(&sim->queue);
    uint64_t event_ns = next != NULL ? next->at_ns : UINT64_MAX;
    uint64_t link_ns = event_ns == sim->now_ns ? UINT64_MAX : shoali_links_next_ns(sim->net);
    uint32_t index;
    uint64_t next_ns = event_ns < link_ns ? event_ns : link_ns;
    if (atomic_load_explicit(&sim->told.files.stopped, memory_order_relaxed)) {
        shoali_sim_break(sim, shoali_fail(SHOAL_ECANCELLED, "the simulation was stopped"));
        return false;
    }
    if (next_ns == UINT64_MAX)
        return false;
    if (sim->report.until_ns > 0 && next_ns > sim->report.until_ns) {
        sim->now_ns = sim->report.results.duration_ns = sim->report.until_ns;
        return false;
    }
    if (event_ns <= link_ns) {
        const shoali_sim_event event = shoali_sim_pop(&sim->queue);
        sim->now_ns = event_ns;
        shoali_sim_handle(sim, &event);
    } else {
        sim->now_ns = link_ns;
        if (shoali_links_finished(sim->net, sim->now_ns, &index))
            shoali_sim_op_moved(sim, index);
    }
    if (sim->told.onlookers.ctx != NULL)
        sim->told.onlookers.look(sim->told.onlookers.ctx);
    return sim->status == SHOAL_OK;
}

static shoal_status conclusion(const shoal_sim *sim)
{
    for (uint32_t i = 0; i < sim->size; i++)
        if (sim->nodes[i].end == SHOAL_SIM_FAILED) {
            shoal_status status = shoali_fail(sim->nodes[i].status, "%s %u: %s",
                                              i < sim->workers ? "worker" : "server", i,
                                              sim->nodes[i].text);
            shoali_error_about((int32_t)i, NULL, NULL, -1);
            return status;
        }
    for (uint32_t i = 0; i < sim->workers; i++)
        if (sim->nodes[i].end != SHOAL_SIM_DONE)
            return shoali_fail(SHOAL_ECANCELLED, "worker %u ended after %llu of %llu iterations", i,
                               (unsigned long long)sim->nodes[i].done,
                               (unsigned long long)sim->iterations);
    return SHOAL_OK;
}

static shoal_status run_all(shoal_sim *sim)
{
    bool idle = false;
    SHOALI_TRY(shoali_sim_start(sim));
    do {
        while (!idle && sim->epoch.ended < sim->size && step(sim))
            idle = sim->now_ns - sim->progress_ns > STUCK_NS;
    } while (!idle && sim->status == SHOAL_OK && shoali_sim_turn(sim));
    if (sim->status != SHOAL_OK)
        return shoali_error_set(&sim->error);
    if (!idle)
        SHOALI_TRY(shoali_sim_test(sim));
    SHOALI_TRY(shoali_sim_report_flush(sim));
    sim->told.files.came_out = true;
    if (idle)
        return stuck(sim, "an hour without progress");
    if (sim->report.until_ns > 0 && sim->now_ns == sim->report.until_ns)
        return SHOAL_OK;
    if (sim->epoch.ended < sim->size)
        return stuck(sim, "deadlock");
    return conclusion(sim);
}

shoal_status shoal_sim_run(shoal_sim *sim)
{
    if (sim->report.results.events > 0)
        return shoali_fail(SHOAL_EINVAL, "a simulation runs once");
    shoal_status status = run_all(sim);
    send_onlooker_away(sim); /* nobody is left who could answer */
    if (sim->told.keeper.ctx != NULL)
        status = sim->told.keeper.end(sim->told.keeper.ctx, status);
    if (!sim->told.files.came_out)
        return status;
    const shoal_status written = shoali_sim_report_end(sim);
    sim->told.files.came_out = written == SHOAL_OK;
    return written != SHOAL_OK ? written : status;
}

/* ---------------------------------------------------------------- results */

shoal_status shoal_sim_results_get(const shoal_sim *sim, shoal_sim_results *results_out)
{
    shoal_sim_results r = sim->report.results;
    double per_iteration = 0;
    if (results_out->size != sizeof r)
        return shoali_fail(SHOAL_EINVAL, "shoal_sim_results: set size first");
    r.size = sizeof r;
    r.params = sim->count;
    r.iterations_min = UINT64_MAX;
    for (uint32_t i = 0; i < sim->size; i++) {
        const shoali_sim_node *node = &sim->nodes[i];
        r.sent_bytes += node->sent_bytes;
        if (i >= sim->workers)
            continue;
        r.iterations_min = node->done < r.iterations_min ? node->done : r.iterations_min;
        r.iterations_max = node->done > r.iterations_max ? node->done : r.iterations_max;
        r.gradients += node->gradients;
        r.compute_ns += node->total_compute_ns;
        r.idle_ns += node->idle_ns;
        if (node->done > 0)
            per_iteration += (double)(node->total_compute_ns + node->idle_ns) / (double)node->done;
    }
    r.iteration_ns = (uint64_t)(per_iteration / sim->workers);
    for (uint32_t link = 0; link < sim->world.link_count; link++) {
        uint64_t bytes = shoali_links_carried_bytes(sim->net, link);
        r.busiest_link_bytes = bytes > r.busiest_link_bytes ? bytes : r.busiest_link_bytes;
    }
    *results_out = r;
    return SHOAL_OK;
}

/* As the others have counted: who was there longest has most. */
static uint64_t refused_of(const shoal_sim *sim, uint32_t worker)
{
    uint64_t most = 0;
    for (uint32_t i = 0; worker < SHOALI_TRUST_WORKERS && i < sim->size; i++) {
        const shoali_refused *refused = sim->nodes[i].tensors.refused;
        most = refused != NULL && refused->times[worker] > most ? refused->times[worker] : most;
    }
    return most;
}

const char *shoal_sim_chosen(const shoal_sim *sim)
{
    return sim->choice.why[0] != '\0' ? sim->choice.why : NULL;
}

shoal_status shoal_sim_endpoint_get(const shoal_sim *sim, uint32_t endpoint,
                                    shoal_sim_endpoint_results *results_out)
{
    if (endpoint >= sim->size || results_out->size != sizeof *results_out)
        return shoali_fail(SHOAL_EINVAL, "endpoint %u of %u, or size not set", endpoint, sim->size);
    const shoali_sim_node *node = &sim->nodes[endpoint];
    *results_out = (shoal_sim_endpoint_results){.size = sizeof *results_out,
                                                .end = node->end,
                                                .status = node->status,
                                                .iterations = node->done,
                                                .gradients = node->gradients,
                                                .compute_ns = node->total_compute_ns,
                                                .idle_ns = node->idle_ns,
                                                .sent_bytes = node->sent_bytes,
                                                .received_bytes = node->received_bytes,
                                                .test_accuracy = node->accuracy,
                                                .refused = refused_of(sim, endpoint)};
    snprintf(results_out->text, sizeof results_out->text, "%s", node->text);
    return SHOAL_OK;
}

const float *shoal_sim_params(const shoal_sim *sim, uint32_t endpoint, size_t *count_out)
{
    if (endpoint >= sim->size || !sim->numbers)
        return NULL;
    *count_out = sim->count;
    return sim->nodes[endpoint].tensors.params;
}
