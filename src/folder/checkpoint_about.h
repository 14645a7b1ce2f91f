/* SPDX-License-Identifier: Apache-2.0 */
/* What a checkpoint says about itself, so that nothing but its file is needed to use it: of which
 * model it is, with its layers; how the samples were standardised; where in the run it was. */
#ifndef SHOALI_FOLDER_CHECKPOINT_ABOUT_H
#define SHOALI_FOLDER_CHECKPOINT_ABOUT_H

#include "files/safetensors.h"
#include "worker/worker.h"

/** The metadata of a checkpoint behind so many steps, of a rank's own file or of the common one;
 * NULL: no memory. */
json_t *shoali_about_make(const shoal_train *train, uint64_t steps_done, bool own);
/** Of a rank's file: how far its metrics were. */
void shoali_about_metrics(const shoali_safetensors *file, shoali_metrics_at *at_out);

/** A whole number of the metadata. ECORRUPT: there is none of that name. path: for errors. */
SHOAL_MUST_USE shoal_status shoali_about_number(const shoali_safetensors *file, const char *path,
                                                const char *key, uint64_t *value_out);
/** The model that a checkpoint is of, as it stands in it; by its spec where it is older than that.
 * *model_out NULL: it says nothing of a model. */
SHOAL_MUST_USE shoal_status shoali_about_model(const shoali_safetensors *file, const char *path,
                                               shoal_model **model_out);
/** Let samples be standardised as they were in training, by which data set ever.
 * @return SHOAL_OK | EINVAL: they have other channels, or classes that it was not trained on |
 *         ECORRUPT */
SHOAL_MUST_USE shoal_status shoali_about_standardise(const shoali_safetensors *file,
                                                     const char *path, const char *data,
                                                     shoali_dataset *dataset);
/** Whether a run may go on from the checkpoint: the same model, seed, optimiser and data.
 * @return SHOAL_OK | EINVAL: the text names what differs | ECORRUPT */
SHOAL_MUST_USE shoal_status shoali_about_check(const shoal_train *train,
                                               const shoali_safetensors *file, const char *path);

/** How the optimiser's state is divided among the ranks of a run, where it is: "--sync ...". */
void shoali_owners_text(const shoal_train *train, char *out, size_t bytes);

/** Whether two models compute the same from the same weights. */
bool shoali_same_layers(const shoal_model *a, const shoal_model *b);

enum { SHOALI_CHANNELS_BYTES = 32 * SHOALI_DATA_CHANNELS_MAX };
/** Per channel as text, "0.13 0.2": mean, or standard deviation. */
void shoali_channels_text(const shoali_dataset *dataset, bool deviation, char *out, size_t bytes);

#endif
