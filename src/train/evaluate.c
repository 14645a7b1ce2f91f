/* SPDX-License-Identifier: Apache-2.0 */
/* What workers find out between steps: whether their replicas agree, how good they are, and who is
 * left of them at the end. */
#include <math.h>

#include "base/error.h"
#include "base/rng.h"
#include "driver/driver.h"
#include "train/train.h"
#include "worker/hybrid.h"

shoal_status shoali_train_check_replicas(shoal_train *train)
{
    float parts[SHOALI_HASH_PARTS];
    uint64_t hash = shoali_hash(shoali_net_params(train->net),
                                shoali_net_count(train->net) * sizeof(float), 0);
    shoali_hash_parts(hash, parts);
    SHOALI_TRY(shoali_metrics_replica(train, hash));
    SHOALI_TRY(shoali_train_reduce(train, parts, SHOALI_HASH_PARTS, SHOAL_MAX, "replica check"));
    if (shoali_hashes_agree(parts))
        return SHOAL_OK;
    shoal_status status = shoali_fail(
        SHOAL_EMISMATCH,
        "the replicas' weights differ after step %llu (this rank's hash is %016llx)",
        (unsigned long long)train->step, (unsigned long long)hash);
    shoali_error_about(-1, NULL, "replica check", -1);
    shoali_error_advice("Start all ranks with the same build and options; a checkpoint holds "
                        "the last good state.");
    return status;
}

/* Batch norm's running statistics are averages over each worker's own batches: take their mean. */
static shoal_status average_state(shoal_train *train)
{
    size_t count = 0;
    float *state = train->net != NULL ? shoali_net_state(train->net, &count) : NULL;
    if (count == 0 || !shoali_train_exchanges(train))
        return SHOAL_OK;
    SHOALI_TRY(shoali_train_reduce(train, state, count, SHOAL_SUM, "batch-norm statistics"));
    for (size_t i = 0; i < count; i++)
        state[i] /= (float)train->members.count;
    return SHOAL_OK;
}

/* What is added up over workers: loss, correct labels and samples come first, as hybrid.c fills
 * them. */
enum { EPOCH_LOSS = 3, EPOCH_SAMPLES, LABELS, SYMBOLS, EDITS, SUMS };

static shoal_status evaluate_weights(shoal_train *train, uint32_t first, uint32_t end, double *sums)
{
    const shoali_split *test = &train->data.set->test;
    for (uint32_t at = first; at < end; at += train->data.test_batch) {
        uint32_t count = end - at < train->data.test_batch ? end - at : train->data.test_batch;
        for (uint32_t i = 0; i < count; i++)
            train->data.order[i] = at + i;
        shoali_train_fill(train, test, train->data.order, count, 0, &train->data.test_crop);
        shoali_batch batch = {.x = train->data.x,
                              .labels = train->data.labels,
                              .count = count,
                              .weight = 1,
                              .lengths = train->data.lengths};
        shoali_loss loss;
        SHOALI_TRY(shoali_net_evaluate(train->net, &batch, &loss));
        sums[0] += loss.sum;
        sums[1] += loss.correct;
        sums[2] += loss.count;
        sums[LABELS] += loss.labels;
        sums[SYMBOLS] += loss.symbols;
        sums[EDITS] += loss.edits;
    }
    return SHOAL_OK;
}

static void swap(float *a, float *b, size_t count)
{
    for (size_t i = 0; b != NULL && i < count; i++) {
        const float kept = a[i];
        a[i] = b[i];
        b[i] = kept;
    }
}

/* With the average of the weights where the optimiser keeps one. */
static shoal_status evaluate_slice(shoal_train *train, uint32_t first, uint32_t end, double *sums)
{
    float *average = shoali_optim_average(train->update.optim);
    swap(train->params, average, train->param_count);
    shoal_status status = evaluate_weights(train, first, end, sums);
    swap(train->params, average, train->param_count);
    return status;
}

shoal_status shoali_train_evaluate(shoal_train *train, bool test)
{
    double sums[SUMS] = {0, 0, 0, train->epoch.loss, (double)train->epoch.samples};
    uint64_t count = train->data.set->test.count;
    uint32_t place = shoali_train_exchanges(train) ? train->members.place : 0;
    uint32_t parts = shoali_train_exchanges(train) ? train->members.count : 1;
    SHOALI_TRY(average_state(train));
    test = test && !train->desc.no_evaluation && count > 0;
    if (train->hybrid != NULL && test)
        SHOALI_TRY(shoali_hybrid_evaluate(train, sums));
    else if (test)
        SHOALI_TRY(evaluate_slice(train, (uint32_t)(count * place / parts),
                                  (uint32_t)(count * (place + 1) / parts), sums));
    if (train->hybrid != NULL)
        sums[LABELS] = sums[2];
    SHOALI_TRY(shoali_train_sum(train, sums, SUMS, "evaluation"));
    train->epoch.test_loss = sums[2] > 0 ? sums[0] / sums[2] : (double)NAN;
    train->epoch.test_accuracy = sums[LABELS] > 0 ? 100 * sums[1] / sums[LABELS] : (double)NAN;
    train->epoch.symbol_error_rate = sums[SYMBOLS] > 0 && !train->data.set->tokens
                                         ? 100 * sums[EDITS] / sums[SYMBOLS]
                                         : (double)NAN;
    if (!train->model->masked) /* whose loss is of a few tokens, which say nothing of the others */
        train->epoch.bits_per_byte = shoali_dataset_bits_per_byte(
            train->data.set, &train->data.set->test, (uint64_t)sums[2], train->epoch.test_loss);
    train->epoch.train_loss = sums[4] > 0 ? sums[3] / sums[4] : (double)NAN;
    return SHOAL_OK;
}

shoal_status shoali_train_evaluate_alone(shoal_train *train, float *accuracy_out)
{
    double sums[SUMS] = {0};
    SHOALI_TRY(evaluate_slice(train, 0, train->data.set->test.count, sums));
    *accuracy_out = sums[LABELS] > 0 ? (float)(100 * sums[1] / sums[LABELS]) : 0;
    return SHOAL_OK;
}

shoal_status shoali_train_drop_lost(shoal_train *train)
{
    train->members.count = shoali_sync_final_members(train->sync, train->members.ranks);
    train->members.place = 0;
    while (train->members.place + 1 < train->members.count &&
           train->members.ranks[train->members.place] != train->rank)
        train->members.place++;
    if (train->members.place == 0)
        SHOALI_TRY(shoali_folder_sign(train));
    return shoali_losses_note(train);
}
