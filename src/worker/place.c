/* SPDX-License-Identifier: Apache-2.0 */
/* Where in its epochs a run is, and how long it is, for the workers that make it now. */
#include "worker/together.h"

void shoali_train_place(const shoal_train *train, uint64_t step, uint64_t *epoch_out,
                        uint64_t *in_epoch_out)
{
    uint64_t done = step - train->from.step;
    uint64_t rest = shoali_sampler_steps_of(train->data.sampler, train->from.epoch);
    uint64_t per = train->steps_per_epoch;
    *epoch_out = done < rest ? train->from.epoch : train->from.epoch + 1 + (done - rest) / per;
    *in_epoch_out = done < rest ? done : (done - rest) % per;
}

void shoali_train_plan_steps(shoal_train *train)
{
    uint64_t epochs = train->desc.epochs, most = train->desc.max_steps;
    train->steps_per_epoch = shoali_sampler_steps(train->data.sampler);
    train->steps = train->from.step;
    if (train->from.epoch < epochs)
        train->steps += shoali_sampler_steps_of(train->data.sampler, train->from.epoch) +
                        (epochs - train->from.epoch - 1) * train->steps_per_epoch;
    if (most > 0 && most < train->steps)
        train->steps = most;
}
